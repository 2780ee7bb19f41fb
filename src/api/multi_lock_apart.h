#ifndef REDLATCH_SRC_API_MULTI_LOCK_APART_H_
#define REDLATCH_SRC_API_MULTI_LOCK_APART_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/multi_lock.h"
#include "src/api/lock_body.h"
#include "src/lock/state/hold_state.h"

namespace redlatch {

// Locks that no script can take together. Those of one client are taken in the order of their keys,
// which all programs share. Those of several are not: a server may be known by several names, so
// that one alone is ever waited for, while nothing is held. Thread-safe.
class MultiLock::Apart {
 public:
  // Each lock once. `bad`: why they cannot be used; OK: they can.
  Apart(std::vector<Part> parts, std::vector<std::unique_ptr<RedisLockBase>> own, absl::Status bad);

  absl::Status bad() const { return bad_; }
  // Its object is gone: calls that wait end with kCancelled.
  void End();

  // Acquire() for the std face. `deadlock`: it failed because the calling thread has one of them,
  // or reads what it wants to write.
  absl::Status Lock(absl::Duration wait, bool& deadlock);
  void Unlock() noexcept;
  absl::StatusOr<Lease> Acquire(const Caller& caller, const AcquireOptions& options);
  void AcquireAsync(const Caller& caller, const AcquireOptions& options, AcquireCallback callback);
  Hold Current() const;
  int HoldCount() const;
  absl::StatusOr<LockInfo> Inspect() const;
  absl::Status ForceRelease();

 private:
  // How one lock is taken and given back, and whether it is still held.
  struct Ways {
    std::function<absl::Status(size_t, absl::Duration wait, const std::stop_token& stop)> take;
    std::function<void(size_t)> give_back;
    std::function<bool(size_t)> holds;
  };
  // What a call works with: while it waits, this object and the locks may be destroyed.
  using Sides = std::vector<LockBody::Side>;

  absl::StatusOr<Sides> SidesFor(const Caller& caller) const;
  absl::Status TakeAll(const Ways& ways, absl::Duration wait, const std::stop_token& stop) const;
  // Answers which one was refused.
  size_t TakeFrom(const Ways& ways, size_t first, absl::Duration wait, const std::stop_token& stop,
                  absl::Status& status) const;
  static Hold Joined(const Sides& sides, const std::vector<Hold>& holds);
  static Lease LeaseOf(const Sides& sides, std::vector<Lease> leases);

  // An acquisition that no thread waits for.
  class Chain;

  const std::vector<Part> parts_;
  const std::vector<std::unique_ptr<RedisLockBase>> own_;
  const absl::Status bad_;
  const bool of_one_client_;
  std::stop_source gone_;
};

}  // namespace redlatch

#endif  // REDLATCH_SRC_API_MULTI_LOCK_APART_H_
