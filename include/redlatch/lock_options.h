// What can be said about a lock, and about one acquisition of it.
#ifndef REDLATCH_LOCK_OPTIONS_H_
#define REDLATCH_LOCK_OPTIONS_H_

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "redlatch/awaitable.h"
#include "redlatch/fencing_token.h"
#include "redlatch/owner.h"

namespace redlatch {

// A hold that ended without being released.
struct LostLease {
  std::string lock;    // its name
  std::string server;  // without password
  FencingToken token;
  std::string reason;  // what happened, in words
};

struct LockOptions {
  // How long a hold lives at the server without being renewed, that is, after its process has
  // died. It is renewed each third. 10 ms to one year.
  absl::Duration lease = absl::Seconds(30);

  // How long the threads of one client may pass the lock among themselves without asking the
  // server, where no other client was known to wait. Another client that comes meanwhile waits at
  // most so much longer. Zero: strict order between all clients.
  absl::Duration local_window = absl::Milliseconds(5);

  // How often, within the window, a running thread may take the lock before the thread that has
  // waited longest. Zero: strict order between the threads of this client, at the price of a
  // thread switch for each acquisition.
  int local_retakes = 16;

  // For a lock that many processes want at once. A client that got the lock after waiting for it,
  // or while others wait, keeps it for so long: its threads pass it on, or take it again, without
  // asking the server. That is many times as fast, and fair between clients at this grain: each
  // waits one turn of every other. A client whose threads do not come back for the lock at once
  // hands it over when they release it, and so does one whose critical section took more than
  // 100 ms. If the process ends without exit() after an unlock() in its turn, by _exit(), exec() or
  // SIGKILL, the others wait for two seconds and not for the lease: each hold is short at first, as
  // for `whole_lease`. Zero: each release hands it to the next client.
  absl::Duration turn = absl::ZeroDuration();

  // For a lock that mostly the same process wants. The client keeps the lock after its last thread
  // has released it, for as long as it is idle for less than that, and takes it again without
  // asking the server: until another client asks for it. So other processes find it busy where it
  // is idle. Their lock() takes twice as long as for a free lock. Their try_lock() fails and calls
  // the lock back: the client gives it back at once, and then with each release, for 2 s or more.
  // If try_lock() is repeated at least once a second, at most one in 2 s fails although no thread
  // has the lock (one a second while messages are lost). If the process ends without exit() while
  // it keeps the lock, by _exit(), exec() or SIGKILL, the lock is free when its lease ends: choose
  // a lease that others can afford to wait for.
  // At most the lease. Manual leases, explicit owners, and locks with `replica_acks` or `fsync` are
  // not kept. Zero: it goes back with each release.
  absl::Duration keep = absl::ZeroDuration();

  // A hold counts only when so many replicas have confirmed that they have it, and each renewal of
  // it too, so that it outlives the loss of its server if one of those takes over: with all of them
  // here, whichever does. If fewer confirm it within the `ack_timeout`, or before the call's wait
  // is over, Acquire() gives the lock back and fails with kUnavailable, which says how many did; a
  // renewal does not count. If the lease is shorter than twice the `ack_timeout`, a hold that is
  // not confirmed within half its lease is given back and acquired anew, until the `ack_timeout` is
  // over. If the server itself fails meanwhile, the call tries again for as long as it may wait.
  // It costs a wait for the replicas, in each acquisition at the server and each renewal, and one
  // more connection. A call that does not wait for the lock, such as try_lock(), still waits for
  // the replicas, for at most the URL's `command_timeout` (1 s).
  int replica_acks = 0;
  absl::Duration ack_timeout = absl::Seconds(2);

  // The same for the server's own disk (its append-only file): holds outlive a crash of its
  // machine. Redis 7.2 and later, and Valkey. One that syncs each second (`appendfsync everysec`)
  // needs an `ack_timeout` and waits of more than a second; for try_lock(), such a
  // `command_timeout`.
  bool fsync = false;

  // Runs on a thread of the client's own after the hold's stop token has fired. It may do anything
  // but destroy the client. Signals are blocked on that thread: end the process from there by
  // kill(getpid(), SIGTERM), not by raise(); and what is started from there begins with them
  // blocked. What it throws is told on stderr and otherwise ignored. (A std::stop_callback on the
  // token must not throw: the standard library ends the process.)
  std::function<void(const LostLease&)> on_lost = {};
};

struct AcquireOptions {
  // How long to wait for the lock; zero: not at all, but for the server to answer, for the URL's
  // `command_timeout` (1 s) at most. Waiting has nothing to do with the lease.
  absl::Duration wait = absl::InfiniteDuration();

  // Makes the hold manual: it lasts so long, whatever happens, and Extend() alone prolongs it.
  // Where it is not given, the hold has the lock's own lease and is renewed until released. A
  // manual hold becomes such a hold when its thread acquires the lock again without a lease.
  std::optional<absl::Duration> lease = {};

  // A client that gets the lock from another client, or gets one with a `turn`, has it for about
  // two seconds at first. The server confirms the whole lease in the background, about 100 ms
  // later; in a longer turn, within a second. True: Acquire() waits for that, and returns with the
  // whole lease. This is for work that must know at its start that it can take longer than two
  // seconds. It costs a round trip after each such handover, in which the lock is taken and idle,
  // so it is off by default. Manual holds always do it.
  bool whole_lease = false;

  // Ends the waiting with kCancelled. It does not touch a hold.
  std::stop_token stop = {};

  // Reentrant locks only; the calling thread where it is not given.
  Owner owner = {};

  // For locks of a class of your own: what the ARGV of this acquisition's `acquire` end with,
  // behind ExtraArgs(). A hold that is passed on inside the client goes to threads with the same
  // ones only.
  std::vector<std::string> args = {};
};

// AcquireOptions for the braces of an awaitable call: see Awaitable. It refers to the values that
// it is given.
struct AcquireOptionsView {
  absl::Duration wait = absl::InfiniteDuration();
  std::optional<absl::Duration> lease = {};
  bool whole_lease = false;
  internal::Given<std::stop_token> stop = {};
  internal::Given<Owner> owner = {};
  internal::Given<std::vector<std::string>> args = {};

  operator AcquireOptions() const {  // NOLINT(google-explicit-constructor)
    return {.wait = wait,
            .lease = lease,
            .whole_lease = whole_lease,
            .stop = stop,
            .owner = owner,
            .args = args};
  }
};

}  // namespace redlatch

#endif  // REDLATCH_LOCK_OPTIONS_H_
