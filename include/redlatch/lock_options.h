// The options of locks, and of one acquisition.
#ifndef REDLATCH_LOCK_OPTIONS_H_
#define REDLATCH_LOCK_OPTIONS_H_

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "redlatch/duration.h"
#include "redlatch/fencing_token.h"
#include "redlatch/internal/options_view.h"

namespace redlatch {

// A hold that ended without being released.
struct LostLease {
  std::string lock;    // its name
  std::string server;  // without password
  FencingToken token;
  std::string reason;  // what happened, in words
};

// A hold whose lock another waiter wants.
struct WantedLease {
  std::string lock;    // its name
  std::string server;  // without password
  FencingToken token;
};

// Which copies of a hold must exist before it counts. If the server is lost, the hold survives as
// long as one of these copies takes over.
struct ReplicaAcks {
  // How many replicas must confirm each acquisition and each renewal. 0 to 1000.
  int replicas = 0;

  // The server's own disk (its append-only file) must have it, so that holds survive a crash of the
  // machine. Redis 7.2 and later, and Valkey. With `appendfsync everysec`, choose a `timeout` and
  // waits of more than a second, and a URL with such a `command_timeout` for try_lock().
  bool fsync = false;

  // How long to wait for them. If too few confirm an acquisition within this time, or before the
  // call's wait is over, Acquire() gives the lock back and fails with kUnavailable; a renewal does
  // not count. A hold that is not confirmed within half its lease is given back and acquired again,
  // until the timeout is over. A call that does not wait for the lock, such as try_lock(), still
  // waits for the acks, by the URL's `command_timeout` (1 s) at most.
  Duration timeout = absl::Seconds(2);
};

// The options of SimpleLock, ReentrantLock, ReentrantReadWriteLock and locks of your own.
struct LockOptions {
  // How long a hold lives at the server without being renewed, that is, after its process has died.
  // It is renewed every third of that time. 10 ms to one year.
  Duration lease = absl::Seconds(30);

  // How long a client may serve its own threads before other clients. In its turn, its threads pass
  // the lock on, or take it again, without asking the server. So a lock that several processes want
  // all the time is many times as fast, and fair at this grain: each client waits one turn of every
  // other.
  //   not set   5 ms while no other client waits. While others wait, four times the round trip to
  //             the server: 0.3 ms at least, and 1 ms at most
  //   set       that long, whether others wait or not
  //   zero      strict order: each release hands it to the next client
  // A client keeps a lock that others want only if it expects a thread back within an eighth of
  // what is left of the turn, judging by what its threads did lately. Otherwise a release hands it
  // over, as it does after a critical section of more than half a turn or 100 ms. While the lock is
  // kept that way, its grant is short, as for AcquireOptions::whole_lease: if the process dies
  // then, the others wait for two seconds and not for the lease.
  std::optional<Duration> turn = {};

  // For a lock that mostly the same process wants: how long the client caches it after its last
  // thread has released it. Its threads take it again without asking the server, until another
  // client recalls it. Other clients find it busy meanwhile: their lock() takes twice as long as
  // for a free lock; their try_lock() fails and recalls the lock, and the client then gives it back
  // with each release, for 2 s or more. If try_lock() is repeated at least once a second, at most
  // one in 2 s fails although no thread has the lock (one a second while messages are lost). If the
  // process dies while it caches the lock, the lock is free when its lease ends.
  // At most the lease. Manual leases, those of an Owner, and locks with `acks` are not cached.
  // Zero: the lock goes back with each release.
  Duration cache_for = absl::ZeroDuration();

  // This costs a wait for the replicas in each acquisition and each renewal, and one more
  // connection.
  ReplicaAcks acks = {};

  // A hold that expires is lost at least this long before the server may let another owner in:
  // valid() becomes false, and lost() fires. In that time the holder can stop its work. Other
  // owners wait for all of it, even if the holder stops sooner. It can be at most half the lease.
  // The usual margin (1 % of the lease, plus 12 ms) is added to it. After a handover from another
  // client, the two seconds of AcquireOptions::whole_lease become longer by this.
  Duration stop_margin = absl::ZeroDuration();

  // The longest time that a hold may last, so that a holder that hangs does not keep the lock for
  // ever. After that the hold is lost, and LostLease::reason says why. The time counts from the
  // acquisition; reentering the lock does not restart it. It must not be shorter than the lease,
  // including that of a manual hold. Extend() refuses to go beyond it (kInvalidArgument). Readers
  // of a lock with this option do not share a grant.
  Duration at_most = absl::InfiniteDuration();

  // After a hold *expires*, because its process died, hung or was cut off, the server waits for at
  // least this long before it grants the lock to another owner. Use it for work that goes on for a
  // while without its process, such as a request in a queue. The client asks for a lease that is
  // longer by this, and does not use that part. A release causes no delay.
  Duration grace = absl::ZeroDuration();

  // Runs on a thread of the client's own after the hold's stop token has fired. It may do anything
  // but destroy the client. Signals are blocked on that thread and in what is started from there:
  // end the process by kill(getpid(), SIGTERM), not by raise(). An exception is reported on stderr
  // and otherwise ignored. (A std::stop_callback on the token must not throw: the standard library
  // ends the process.)
  std::function<void(const LostLease&)> on_lost = {};

  // For long holds that can give way: Lease::wanted() and Hold::wanted() fire when another thread
  // or client begins to wait for the lock, or at once if one is waiting already. The server
  // announces a waiter by message, so nothing is polled. If the message is lost, the hold is told
  // at the first waiter's next heartbeat or at its own next renewal, after a third of the lease at
  // most. Each hold is told once, and is not told if the waiter gives up. A call that does not
  // wait, such as try_lock(), is not a waiter. A read is told of waiting writers. A read under a
  // write of its own thread is not told, but the write is. If several clients have a reentrant lock
  // as one Owner, they learn of waiters by their renewals only. lock() sends a script instead of a
  // native command. This works for SimpleLock, ReentrantLock, ReentrantReadWriteLock, and your own
  // classes whose LockTraits are `cacheable`. A MultiLock that acquires its locks by one script
  // refuses this option with kInvalidArgument; the lease of any other MultiLock is told when one of
  // its holds is told.
  bool tell_if_wanted = false;

  // Runs after wanted() has fired, under the same rules as on_lost. It may run before the call that
  // acquires the lock has returned, or after the release. Implies `tell_if_wanted`.
  std::function<void(const WantedLease&)> on_wanted = {};
};

// The options of one acquisition, of any lock or semaphore.
struct AcquireOptions {
  // How long to wait for the lock. Zero: do not wait, except for the server's answer, for the URL's
  // `command_timeout` (1 s) at most. Waiting has nothing to do with the lease.
  Duration wait = absl::InfiniteDuration();

  // Makes the hold manual: it lasts that long, and only Extend() prolongs it. If it is not set, the
  // hold has the lock's own lease and is renewed until released. A manual hold becomes a renewed
  // one when its thread acquires the lock again without a lease.
  std::optional<Duration> lease = {};

  // A client that gets the lock from another client, or in a turn, has it for about two seconds at
  // first. The server confirms the whole lease in the background, about 100 ms later; in a longer
  // turn, within a second. True: Acquire() waits for that, and returns with the whole lease, at the
  // cost of a round trip per handover, during which the lock is taken but idle. This is always so
  // for manual holds.
  bool whole_lease = false;

  // The name stays taken for this long after the acquisition, even if the lock is released or its
  // process dies sooner. Use it for work that must not begin more often than that. The server's
  // clock alone counts. Other callers wait for that time, or find the lock busy, as if it were
  // held; ForceRelease() ends it. This works for SimpleLock, ReentrantLock and the write side of
  // ReentrantReadWriteLock, without an Owner; all other locks refuse it with kInvalidArgument. Such
  // a hold is not cached, and its client does not pass it on to another thread in a turn. A
  // call that enters a reentrant lock again ignores it. See also Lease::StayTaken().
  Duration at_least = absl::ZeroDuration();

  // Ends the waiting with kCancelled. It does not touch a hold.
  std::stop_token stop = {};
};

// AcquireOptions for the braces of an awaitable call: see Awaitable. It refers to the values that
// it is given.
struct AcquireOptionsView {
  Duration wait = absl::InfiniteDuration();
  std::optional<Duration> lease = {};
  bool whole_lease = false;
  Duration at_least = absl::ZeroDuration();
  internal::Given<std::stop_token> stop = {};

  operator AcquireOptions() const {  // NOLINT(google-explicit-constructor)
    return {.wait = wait,
            .lease = lease,
            .whole_lease = whole_lease,
            .at_least = at_least,
            .stop = stop};
  }
};

}  // namespace redlatch

#endif  // REDLATCH_LOCK_OPTIONS_H_
