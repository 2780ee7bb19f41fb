// Several locks at once: all of them, or none.
#ifndef REDLATCH_MULTI_LOCK_H_
#define REDLATCH_MULTI_LOCK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/lease.h"
#include "redlatch/lock_info.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"
#include "redlatch/reentrant_read_write_lock.h"

namespace redlatch {

// As those of LockOptions; a MultiLock is not cached.
struct MultiLockOptions {
  Duration lease = absl::Seconds(30);
  std::optional<Duration> turn = {};
  ReplicaAcks acks = {};
  std::function<void(const LostLease&)> on_lost = {};
};

// A lock of several names, for work that needs more than one thing at a time:
//
//   redlatch::MultiLock both(client, {"account:1", "account:2"});
//   std::scoped_lock guard(both);
//
// or of locks that are there already, of any class and on any clients, shared sides too:
//
//   redlatch::MultiLock all({&orders, &prices.read_lock()});
//   absl::StatusOr<redlatch::Lease> lease = all.Acquire({.wait = absl::Seconds(5)});
//
// It excludes, and is excluded by, whatever else holds one of them. No two MultiLocks that share
// locks can wait for each other, in whatever order each was given its own.
//
//   the locks are                       how they are taken
//   names, or SimpleLocks, of one       together, by one script: whoever waits holds none of them,
//   client, in one slot                 and has its turn after those that came before it
//   of one client, else                 one after the other, in the order of their keys: so does
//                                       every program
//   of several clients                  the first is waited for, the others are tried; if one is
//                                       taken, or lost meanwhile, all are given back, and that one
//                                       is waited for
//
// Names of one server, or of a cluster if they have a hash tag in common ("{acct}:1", "{acct}:2"),
// are in one slot. The first way costs little more than one lock. By the others, waiting may take
// long, as it does with std::lock(), and the locks that were taken first are held meanwhile. Each
// lock costs an answer of its server, to be had and to be released: where a server does not answer,
// each of its locks may cost the command_timeout.
//
// A Lease is of all of them: it is lost as soon as one of them is, and the others are given back
// when it is released. By the first way they have one fencing token, larger than each has had
// before. By the others each has its own: `lease.fencing_token("account:1")`; and fencing_token()
// is 0, as it is for a name that is not among them, or that two of them have.
//
// By the first way this is a lock of its own for the client: it has the options given here, or
// those of the first lock in the list; and a thread that holds one of the locks by itself is
// someone else to it, and would wait for itself. So is a thread that holds another MultiLock which
// shares one. By the other ways each lock is used as if by itself, with its own options. current()
// and hold_count() tell what the calling thread has of all of them, name() lists them, Inspect()
// tells of the holders of any and of the first waiters of each, ForceRelease() frees all.
//
// A name, or a lock, that is given twice counts once. kInvalidArgument at first use: no locks at
// all, more than 64, both sides of one lock, or a MultiLock in another.
//
// For its methods, their errors, and when it may be destroyed, see RedisLockBase. By the other ways
// Acquire() may also return kAborted, and try_lock() and try_lock_for() throw it: one of the locks
// was lost while the call took another one, and there was no time left to try again.
class REDLATCH_EXPORT MultiLock final : public RedisLockBase {
 public:
  // A lock, or one side of it. Neither is copied: each is to live for as long as the MultiLock.
  class Part {
   public:
    Part(RedisLockBase* lock) : lock_(lock) {}     // NOLINT(google-explicit-constructor)
    Part(ReentrantReadWriteLock::ReadView* side);  // NOLINT(google-explicit-constructor)

   private:
    friend class MultiLock;
    RedisLockBase* lock_;
    bool reads_ = false;
  };

  MultiLock(const Client& client, std::vector<std::string> names, MultiLockOptions options = {});
  explicit MultiLock(std::vector<Part> locks);
  ~MultiLock() override;

  void lock() override;
  void unlock() noexcept override;

  // For work that crosses threads or processes: see Owner. kInvalidArgument unless all
  // locks are reentrant and are taken one after the other.
  using RedisLockBase::AcquireAs;
  using RedisLockBase::AcquireAsyncAs;
  using RedisLockBase::AcquireAwaitableAs;

  Hold current() const override;
  int hold_count() const override;
  absl::StatusOr<LockInfo> Inspect() const override;
  absl::Status ForceRelease() override;

 private:
  class Apart;

  absl::StatusOr<Lease> AcquireBy(const Caller& caller, const AcquireOptions& options) override;
  void AcquireAsyncBy(const Caller& caller, const AcquireOptions& options,
                      AcquireCallback callback) override;
  std::optional<bool> TryLockFor(absl::Duration wait) override;
  LockScripts Scripts() const override;
  LockTraits Traits() const override;

  // What it is made of.
  struct Made;
  explicit MultiLock(Made made);
  static Made Make(const Client& client, std::vector<std::string> names, MultiLockOptions options);
  static Made Make(std::vector<Part> locks);
  static absl::Status Arrange(std::vector<Part>& locks);

  std::shared_ptr<Apart> apart_;  // null: one script takes all
};

}  // namespace redlatch

#endif  // REDLATCH_MULTI_LOCK_H_
