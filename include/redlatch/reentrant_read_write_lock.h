// A shared mutex for threads, processes and hosts: many readers, or one writer.
#ifndef REDLATCH_REENTRANT_READ_WRITE_LOCK_H_
#define REDLATCH_REENTRANT_READ_WRITE_LOCK_H_

#include <string>
#include <string_view>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/read_write_lock_base.h"

namespace redlatch {

// Works like std::shared_timed_mutex, across processes. The writer's methods are those of
// RedisLockBase.
//
//   redlatch::ReentrantReadWriteLock lock(client, "prices");
//   { std::shared_lock reading(lock); Print(prices); }
//   { std::scoped_lock writing(lock); prices.Update(); }
//
//   this thread holds   lock()                            lock_shared()
//   nothing             waits for readers and writers     waits for writers, and for their wait
//                                                         markers
//   the write lock      holds again                       holds both: then unlock() downgrades
//   a read lock         refused: it would wait for        holds again, in any case
//                       itself
//
// "Refused" is resource_deadlock_would_occur for lock(), false for try_lock(), kFailedPrecondition
// for Acquire().
//
// A waiting writer leaves a wait marker. It holds back readers that come later, for as long as the
// writer's heartbeats arrive. A writer's release lets the next writer in or, if none waits, all
// waiting readers. A reader that dies holds back writers only until its own lease ends, even if
// other clients go on reading.
//
// The readers of one client share a grant. During the client's turn (LockOptions::turn), a reader
// joins that grant without a round trip. If the grant is lost, all its readers lose their leases. A
// reader's fencing token is that of the last write before it, so several readers have the same
// token. A reader that finds a larger token in the data has been overtaken by a writer.
class REDLATCH_EXPORT ReentrantReadWriteLock final : public ReadWriteLockBase {
 public:
  enum class Policy {
    kWriterFirst,  // writers go before readers; writers without a pause starve readers
    kPhaseFair,    // readers that waited through a write go before the next write
  };

  ReentrantReadWriteLock(const Client& client, std::string_view name, LockOptions options = {},
                         Policy policy = Policy::kWriterFirst);
  ~ReentrantReadWriteLock() override;

  // For writers whose work crosses threads or processes: see Owner.
  using RedisLockBase::AcquireAs;
  using RedisLockBase::AcquireAsyncAs;
  using RedisLockBase::AcquireAwaitableAs;

 private:
  LockScripts Scripts() const override;
  LockScripts SharedScripts() const override;
  LockTraits Traits() const override;
  std::vector<std::string> ExtraKeys() const override;
  std::vector<std::string> ExtraArgs() const override;

  const Policy policy_;
};

}  // namespace redlatch

#endif  // REDLATCH_REENTRANT_READ_WRITE_LOCK_H_
