// A function under a lock, with the loss of the lock as one of its outcomes.
#ifndef REDLATCH_RUN_LOCKED_H_
#define REDLATCH_RUN_LOCKED_H_

#include <functional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/lease.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

namespace internal {

template <class Work>
std::invoke_result_t<Work&, std::stop_token> RunUnder(absl::StatusOr<Lease> lease, Work& work) {
  if (!lease.ok()) return lease.status();
  auto result = std::invoke(work, lease->lost());
  absl::Status released = lease->Release();
  if (result.ok() && absl::IsAborted(released)) return released;
  return result;
}

}  // namespace internal

// Acquires the lock, calls `work` with a stop token that fires when the hold is lost, and releases
// the lock. Returns the result of `work`: an absl::Status, or an absl::StatusOr<T>.
//
//   absl::Status done = redlatch::RunLocked(lock, {.wait = 5s},
//                                           [&](std::stop_token lost) { return Settle(lost); });
//
//   the lock         work     result
//   not acquired     -        why not; `work` is not called
//   acquired         OK       what `work` returned
//   lost meanwhile   OK       kAborted: other work may have run at the same time
//   either           failed   the failure of `work`; an exception passes
template <class Work>
std::invoke_result_t<Work&, std::stop_token> RunLocked(RedisLockBase& lock,
                                                       const AcquireOptions& options, Work&& work) {
  return internal::RunUnder(lock.Acquire(options), work);
}
// The same for an Owner, if the lock allows owners.
template <class Lock, class Work>
std::invoke_result_t<Work&, std::stop_token> RunLockedAs(Lock& lock, const Owner& owner,
                                                         const AcquireOptions& options,
                                                         Work&& work) {
  return internal::RunUnder(lock.AcquireAs(owner, options), work);
}

}  // namespace redlatch

#endif  // REDLATCH_RUN_LOCKED_H_
