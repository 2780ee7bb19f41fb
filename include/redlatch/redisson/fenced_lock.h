// A lock with fencing tokens that Java programs share through Redisson's RFencedLock.
#ifndef REDLATCH_REDISSON_FENCED_LOCK_H_
#define REDLATCH_REDISSON_FENCED_LOCK_H_

#include "redlatch/export.h"
#include "redlatch/redisson/lock.h"

namespace redlatch::redisson {

// The same lock as `redisson.getFencedLock(name)` in Java: a Lock whose acquisitions, in either
// language, are numbered. Lease::fencing_token() and Java's lockAndGetToken() return that number.
//
//   redlatch::redisson::FencedLock lock(client, "orders:42");
//   absl::StatusOr<redlatch::Lease> lease = lock.Acquire({.wait = 5s});
//   if (!lease.ok()) return lease.status();
//   store.Write(row, lease->fencing_token());
//
// In Java, a lock that is taken again gets a new token; in C++, it keeps its own. The counter is a
// key without a time to live. If it is deleted, tokens begin at 1 again.
class REDLATCH_EXPORT FencedLock final : public Lock {
 public:
  using Lock::Lock;

 private:
  LockScripts Scripts() const override;
  LockTraits Traits() const override;
};

}  // namespace redlatch::redisson

#endif  // REDLATCH_REDISSON_FENCED_LOCK_H_
