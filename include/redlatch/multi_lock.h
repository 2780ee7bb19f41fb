// Several locks at once: all of them, or none.
#ifndef REDLATCH_MULTI_LOCK_H_
#define REDLATCH_MULTI_LOCK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"
#include "redlatch/reentrant_read_write_lock.h"

namespace redlatch {

// These are as in LockOptions. A MultiLock is not cached.
struct MultiLockOptions {
  Duration lease = absl::Seconds(30);
  std::optional<Duration> turn = {};
  ReplicaAcks acks = {};
  std::function<void(const LostLease&)> on_lost = {};
};

// A lock of several names, or of several locks of any class, on any clients. It excludes every
// other holder of any of them. Two MultiLocks with some of the same locks cannot deadlock, whatever
// the order in which you give their locks. Its methods are those of RedisLockBase.
//
//   redlatch::MultiLock both(client, {"account:1", "account:2"});
//   std::scoped_lock guard(both);
//
//   redlatch::MultiLock all({&orders, &prices.read_lock()});
//   absl::StatusOr<redlatch::Lease> lease = all.Acquire({.wait = 5s});
//
//   the locks are                     how they are taken
//   names, or SimpleLocks, of one     together, by one script: a waiter holds none of them, and is
//     client, in one slot             served after those that came before it
//   of one client, else               one after the other, in the order of their keys, as in every
//                                     program
//   of several clients                one is waited for, the others are tried; if one is busy or is
//                                     lost meanwhile, all are given back, and that one is waited
//                                     for
//
// Names are in one slot on one server, or in a cluster if they share a hash tag ("{acct}:1",
// "{acct}:2"). If they are taken together, they cost little more than one lock. Otherwise, a wait
// may take as long as with std::lock(), and an unreachable server may cost the `command_timeout`
// for each lock.
//
//                                     taken together            one after the other
//   fencing_token()                   larger than those before  0; each lock has its own:
//                                                               fencing_token("account:1")
//   options                           those given here, or of   each lock has its own
//                                     the first lock
//   a thread that holds one of them   waits for itself          as that lock by itself
//   one is lost while another is      -                         kAborted if the wait is over:
//     waited for                                                try_lock() throws it
//
// A Lease is lost as soon as one of its locks is lost; the others are given back when it is
// released. name() lists all of them, current() and hold_count() describe the calling thread's hold
// on all of them, Inspect() shows the holders of any of them, and ForceRelease() frees all of them.
// A lock that is given twice counts once. kInvalidArgument at first use: no locks, more than 64,
// both sides of one lock, or a MultiLock in another.
class REDLATCH_EXPORT MultiLock final : public RedisLockBase {
 public:
  // A lock, or its shared side, which must live for as long as the MultiLock.
  class Part {
   public:
    Part(RedisLockBase* lock) : lock_(lock) {}    // NOLINT(google-explicit-constructor)
    Part(ReentrantReadWriteLock::ReadView* side)  // NOLINT(google-explicit-constructor)
        : lock_(side == nullptr ? nullptr : &side->whole()), reads_(true) {}

    RedisLockBase* lock() const { return lock_; }
    bool reads() const { return reads_; }

   private:
    RedisLockBase* lock_;
    bool reads_ = false;
  };

  MultiLock(const Client& client, const std::vector<std::string>& names,
            MultiLockOptions options = {});
  explicit MultiLock(std::vector<Part> locks);

  // For work that crosses threads or processes: see Owner. kInvalidArgument unless all locks are
  // reentrant, and so are taken one after the other.
  using RedisLockBase::AcquireAs;
  using RedisLockBase::AcquireAsyncAs;
  using RedisLockBase::AcquireAwaitableAs;

 private:
  class Apart;

  static std::shared_ptr<Body> Make(const Client& client, const std::vector<std::string>& names,
                                    MultiLockOptions options);
  // `own` are those of the locks that were made for this object.
  static std::shared_ptr<Body> Make(std::vector<Part> locks,
                                    std::vector<std::unique_ptr<RedisLockBase>> own);
  static absl::Status Arrange(std::vector<Part>& locks);

  LockScripts Scripts() const override;
  LockTraits Traits() const override;
};

}  // namespace redlatch

#endif  // REDLATCH_MULTI_LOCK_H_
