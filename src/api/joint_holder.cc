#include "src/api/joint_holder.h"

namespace redlatch {

JointHolder::~JointHolder() { ReleaseQuietly(0); }

// What is not confirmed yet comes before what is lost: only the former is worth another call.
absl::Status JointHolder::Release(uint64_t) {
  absl::Status result;
  for (size_t i = leases_.size(); i-- > 0;) {
    absl::Status released = leases_[i].Release();
    if (result.ok() || (absl::IsAborted(result) && !released.ok())) result = std::move(released);
  }
  return result;
}

absl::Status JointHolder::Extend(uint64_t, absl::Duration lease) {
  for (Lease& each : leases_) {
    if (absl::Status extended = each.Extend(lease); !extended.ok()) return extended;
  }
  return absl::OkStatus();
}

void JointHolder::ReleaseQuietly(uint64_t) {
  while (!leases_.empty()) leases_.pop_back();
}

}  // namespace redlatch
