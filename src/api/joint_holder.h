#ifndef REDLATCH_SRC_API_JOINT_HOLDER_H_
#define REDLATCH_SRC_API_JOINT_HOLDER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/lease.h"
#include "src/lock/client_core.h"
#include "src/lock/state/hold_owner.h"

namespace redlatch {

// Whom the lease of several locks has its hold from: their leases, which end with it, the last one
// first. There is one hold, whatever it is called.
class JointHoldOwner final : public internal::HoldOwner {
 public:
  JointHoldOwner(std::shared_ptr<internal::ClientCore> core, std::vector<Lease> leases)
      : core_(std::move(core)), leases_(std::move(leases)) {}
  ~JointHoldOwner() override;

  absl::Status Refusal() const override { return core_->Refusal(); }
  absl::Status Release(uint64_t hold, FencingToken token) override;
  absl::Status Extend(uint64_t hold, absl::Duration lease) override;
  void ReleaseQuietly(uint64_t hold, FencingToken token) override;
  void ReleaseAsync(uint64_t hold, FencingToken token, Then then) override;
  void Tell(absl::AnyInvocable<void() &&> completion) override {
    core_->async().Complete(std::move(completion));
  }

 private:
  const std::shared_ptr<internal::ClientCore> core_;  // of one of them
  std::vector<Lease> leases_;
};

}  // namespace redlatch

#endif  // REDLATCH_SRC_API_JOINT_HOLDER_H_
