#include "src/api/joint_holder.h"

#include "absl/base/thread_annotations.h"
#include "src/base/mutex.h"
#include "src/base/status.h"

namespace redlatch {

JointHoldOwner::~JointHoldOwner() { ReleaseQuietly(0, {}); }

namespace {

// What is not confirmed yet comes before what is lost: only the former is worth another call.
void Add(absl::Status released, absl::Status& result) {
  if (result.ok() || (absl::IsAborted(result) && !released.ok())) result = std::move(released);
}

}  // namespace

absl::Status JointHoldOwner::Release(uint64_t, FencingToken) {
  absl::Status result;
  for (size_t i = leases_.size(); i-- > 0;) Add(leases_[i].Release(), result);
  return result;
}

// Whoever hears of the last one tells the user, where that is told.
void JointHoldOwner::ReleaseAsync(uint64_t, FencingToken, Then then) {
  struct Joint {
    base::Mutex mu;
    size_t left ABSL_GUARDED_BY(mu) = 0;
    absl::Status result ABSL_GUARDED_BY(mu);
    Then then ABSL_GUARDED_BY(mu);
  };
  auto joint = std::make_shared<Joint>();
  {
    const base::MutexLock lock(joint->mu);
    joint->left = leases_.size();
    joint->then = std::move(then);
  }
  for (size_t i = leases_.size(); i-- > 0;) {
    leases_[i].ReleaseAsync([joint](const absl::Status& released) {
      absl::AnyInvocable<void() &&> last;
      {
        const base::MutexLock lock(joint->mu);
        Add(base::Unshared(released), joint->result);
        if (--joint->left == 0) last = std::move(joint->then)(joint->result);
      }
      if (last) std::move(last)();
    });
  }
}

absl::Status JointHoldOwner::Extend(uint64_t, absl::Duration lease) {
  for (Lease& each : leases_) {
    if (absl::Status extended = each.Extend(lease); !extended.ok()) return extended;
  }
  return absl::OkStatus();
}

void JointHoldOwner::ReleaseQuietly(uint64_t, FencingToken) {
  while (!leases_.empty()) leases_.pop_back();
}

}  // namespace redlatch
