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

// Which copies of a hold must exist before it counts. If the server is lost, the hold survives if a
// server with one of these copies takes over.
struct ReplicaAcks {
  // How many replicas must confirm each acquisition and each renewal. 0 to 1000.
  int replicas = 0;

  // True: each hold must also be in the append-only file on the server's own disk, so that it
  // survives a crash of the machine. This needs Redis 7.2 or later, or Valkey. With `appendfsync
  // everysec`, choose a `timeout` and waits of more than a second. For try_lock(), the URL's
  // `command_timeout` must be longer than that, too.
  bool fsync = false;

  // How long to wait for these copies. If too few confirm an acquisition within this time, or
  // before the call's wait is over, Acquire() gives the lock back and fails with kUnavailable. If
  // too few confirm a renewal, it does not count. A hold that is not confirmed within half its
  // lease is given back and acquired again, until the timeout is over. A call that does not wait
  // for the lock, such as try_lock(), still waits for the acks, for the URL's `command_timeout` (1
  // s) at most.
  Duration timeout = absl::Seconds(2);
};

// The options of SimpleLock, ReentrantLock, ReentrantReadWriteLock and locks of your own.
struct LockOptions {
  // How long the server keeps a hold that is not renewed, for example because its process died. The
  // client renews it every third of that time. 10 ms to one year.
  Duration lease = absl::Seconds(30);

  // How long a client may serve its own threads before other clients. During its turn, its threads
  // pass the lock on, or take it again, without asking the server. That makes a lock that several
  // processes want all the time many times as fast. It is still fair between clients: each waits
  // for one turn of every other client.
  //   not set   5 ms while no other client waits. While others wait, four times the round trip to
  //             the server: 0.3 ms at least, and 1 ms at most
  //   set       that long, whether others wait or not
  //   zero      strict order: each release hands the lock to the next client
  // A client keeps a lock that others want only if it expects one of its threads to want the lock
  // again within an eighth of the rest of the turn, judging by what its threads did lately.
  // Otherwise a release hands the lock over. So does the release after a critical section of more
  // than half a turn, or of more than 100 ms. While a client keeps the lock in this way, its grant
  // is short (see AcquireOptions::whole_lease). If the process dies then, the others wait for two
  // seconds, and not for the lease.
  std::optional<Duration> turn = {};

  // For a lock that mostly one process wants: how long the client caches the lock after its last
  // thread has released it. Its threads take the lock again without asking the server, until
  // another client recalls it. Meanwhile other clients find the lock busy. Their lock() recalls it,
  // and takes twice as long as for a free lock. Their try_lock() recalls it too, but fails; for the
  // next 2 s or more, the client then gives the lock back with each release. So if try_lock() is
  // repeated at least once per second, at most one call in 2 s fails although no thread has the
  // lock (one per second while messages are lost). If the process dies while it caches the lock,
  // the lock is free when its lease ends. It must not be longer than the lease. Manual holds, holds
  // of an Owner, and locks with `acks` are not cached. Zero: each release gives the lock back.
  Duration cache_for = absl::ZeroDuration();

  // With acks, each acquisition and each renewal waits for the replicas, and the client needs one
  // more connection.
  ReplicaAcks acks = {};

  // How much time the holder has to stop its work: a hold that expires is lost at least this long
  // before the server may let another owner in. Then valid() becomes false, and lost() fires. Other
  // owners wait for all of this time, even if the holder stops sooner. It can be at most half the
  // lease. The usual margin (1 % of the lease + 2 ms) is added to it, and so is the time, at most
  // 10 ms, by which a loss is declared early. After a handover from another client, the two seconds
  // of AcquireOptions::whole_lease become longer by this time.
  Duration stop_margin = absl::ZeroDuration();

  // The longest time that a hold may last, so that a holder that hangs does not keep the lock
  // forever. After this time the hold is lost, and LostLease::reason says why. The time counts from
  // the acquisition; reentering the lock does not restart it. It must not be shorter than the
  // lease, including that of a manual hold. Extend() refuses to go beyond it (kInvalidArgument).
  // Readers of a lock with this option do not share a grant.
  Duration at_most = absl::InfiniteDuration();

  // After a hold *expires*, because its process died, hung or was cut off, the server waits for at
  // least this long before it grants the lock to another owner. Use it for work that goes on for a
  // while without its process, such as a request in a queue. The client asks for a lease that is
  // longer by this time, and does not use that part. After a release, there is no such delay.
  Duration grace = absl::ZeroDuration();

  // Runs on a thread of the client after the hold's stop token has fired. It may do anything but
  // destroy the client. Signals are blocked on that thread, and in threads and processes that it
  // starts. To end the process, call kill(getpid(), SIGTERM) and not raise(). An exception is
  // reported on stderr and otherwise ignored. (A std::stop_callback on the token must not throw:
  // the standard library ends the process.)
  std::function<void(const LostLease&)> on_lost = {};

  // For long holds that can give way: Lease::wanted() and Hold::wanted() fire when another thread
  // or client begins to wait for the lock, or at once if one is waiting already. The server
  // announces a waiter by message, so nothing is polled. If the message is lost, the token fires at
  // the first waiter's next heartbeat or at the hold's own next renewal, after a third of the lease
  // at most. It fires once per hold, and a waiter that gives up does not take that back. A call
  // that does not wait, such as try_lock(), is not a waiter. A read is told of waiting writers. A
  // read under a write of its own thread is not told, but the write is. If several clients have a
  // reentrant lock as one Owner, they learn of waiters by their renewals only. lock() sends a
  // script instead of a native command. This works for SimpleLock, ReentrantLock,
  // ReentrantReadWriteLock, and your own classes whose LockTraits are `cacheable`. A MultiLock that
  // acquires its locks by one script refuses this option with kInvalidArgument; the lease of any
  // other MultiLock is told when one of its holds is told.
  bool tell_if_wanted = false;

  // Runs after wanted() has fired, under the same rules as on_lost. It may run before the call that
  // acquires the lock has returned, or after the release. Implies `tell_if_wanted`.
  std::function<void(const WantedLease&)> on_wanted = {};
};

// The options of one acquisition, of any lock or semaphore.
struct AcquireOptions {
  // How long to wait for the lock. With zero, the call waits only for the server's answer, for the
  // URL's `command_timeout` (1 s) at most. The wait has nothing to do with the lease.
  Duration wait = absl::InfiniteDuration();

  // Makes the hold manual: it lasts that long, and only Extend() prolongs it. If it is not set, the
  // hold has the lock's own lease and is renewed until released. A manual hold becomes a renewed
  // one when its thread acquires the lock again without a lease.
  std::optional<Duration> lease = {};

  // A client that gets the lock from another client has it for about two seconds at first, and for
  // a quarter of a second or more in a turn. It asks for the whole lease in the background, about a
  // tenth of a second later, or within a second in a longer turn. If this option is true, Acquire()
  // asks for it first, and returns with the whole lease. That costs one round trip per handover,
  // during which the lock is taken but idle. Acquire() always does this for manual holds.
  bool whole_lease = false;

  // The name stays taken for this long after the acquisition, even if the lock is released or its
  // process dies sooner. Use it for work that must not begin more often than that. Only the
  // server's clock counts. During that time, other callers wait, or find the lock busy, as if it
  // were held. ForceRelease() ends it. This works for SimpleLock, ReentrantLock and the write side
  // of ReentrantReadWriteLock, without an Owner; all other locks refuse it with kInvalidArgument.
  // Such a hold is not cached, and its client does not pass it on to another thread in a turn. A
  // call that enters a reentrant lock again ignores it. See also Lease::StayTaken().
  Duration at_least = absl::ZeroDuration();

  // Ends the wait with kCancelled. It has no effect on a hold.
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
