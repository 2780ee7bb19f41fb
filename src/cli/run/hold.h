// The options of `redlatch run`, its lock, and its messages while it waits for the lock.
#ifndef REDLATCH_SRC_CLI_RUN_HOLD_H_
#define REDLATCH_SRC_CLI_RUN_HOLD_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/lease.h"
#include "redlatch/lock_info.h"
#include "redlatch/permit.h"
#include "src/cli/term/output.h"

namespace redlatch::cli {

enum class RunKind : uint8_t {
  kPlain,    // a SimpleLock
  kShared,   // the read side of a ReentrantReadWriteLock
  kWrite,    // the write side of a ReentrantReadWriteLock
  kPermits,  // permits of a Semaphore
  kQuorum,   // a RedLock, since the URL names a quorum of servers
};

struct RunOptions {
  std::string name;
  std::vector<std::string> command;
  RunKind kind = RunKind::kPlain;
  int64_t permits = 1;
  int64_t capacity = 0;
  absl::Duration wait = absl::InfiniteDuration();
  absl::Duration lease = absl::Seconds(30);
  // The time from SIGTERM to SIGKILL.
  absl::Duration grace = absl::Seconds(10);
  bool kill_on_lost = true;
  int busy_code = kBusy;
  std::string server;  // a URL
};

// Returns an exit code if nothing is to be run: see CommandLine::Parse().
std::optional<int> ParseRunOptions(const std::vector<std::string>& words, RunOptions* options);

// A Lease or a Permit.
class RunHold {
 public:
  RunHold(Lease lease, std::string server) : held_(std::move(lease)), server_(std::move(server)) {}
  RunHold(Permit permit, std::string server)
      : held_(std::move(permit)), server_(std::move(server)) {}

  absl::Duration remaining() const {
    return std::visit([](const auto& held) { return held.remaining(); }, held_);
  }
  std::stop_token lost() const {
    return std::visit([](const auto& held) { return held.lost(); }, held_);
  }
  absl::Status Release() {
    return std::visit([](auto& held) { return held.Release(); }, held_);
  }
  // Null if it is a Permit.
  const Lease* lease() const { return std::get_if<Lease>(&held_); }
  // The server's URL, without user and password.
  const std::string& server() const { return server_; }

 private:
  std::variant<Lease, Permit> held_;
  std::string server_;
};

// Connects and acquires on its own thread, and reports on a terminal while it waits.
class RunAttempt {
 public:
  // `what`: `lock "x"`, for messages. `ended` is called on that thread at the end.
  RunAttempt(const RunOptions& options, std::shared_ptr<Observer> observer, std::string what,
             std::function<void()> ended);
  ~RunAttempt() = default;  // joins
  RunAttempt(const RunAttempt&) = delete;
  RunAttempt& operator=(const RunAttempt&) = delete;

  bool done() const { return done_; }

  // Ends the wait because of a signal. If the attempt is still connecting, it ends this process:
  // there is nothing to cancel at the server.
  void CallOff(int signal);

  // REQUIRES: done(). Sets `hold` if the lock was acquired. Returns an exit code if it was not,
  // which it explains on stderr, or if the caller must release it at once because of CallOff().
  std::optional<int> Take(std::optional<RunHold>* hold);

 private:
  enum class Phase : uint8_t { kConnecting, kAcquiring, kCalledOff };

  absl::StatusOr<RunHold> Acquire();
  absl::StatusOr<RunHold> TakeFor(const Client& client, absl::Duration wait);
  template <class Lock, class Call>
  absl::StatusOr<RunHold> TakeBy(const Client& client, Lock& lock, const Call& acquire);
  int ExplainRefusal() const;

  const RunOptions& options_;
  const std::shared_ptr<Observer> observer_;
  const std::string what_;
  std::string holders_;  // "held by ...", if the lock is busy; empty: unknown
  absl::StatusOr<RunHold> result_ = absl::UnknownError("");
  std::stop_source stop_;
  std::atomic<Phase> phase_ = Phase::kConnecting;
  std::atomic<bool> done_ = false;
  int called_off_ = 0;  // the signal of CallOff()
  std::jthread thread_;
};

// "1.5s": whole milliseconds.
std::string Rounded(absl::Duration time);

// "held by redlatch run: make (web1, pid 4242) and 2 more"; "4 of 4 permits taken, by ..."; or, if
// the lock is free, how many are in line. Empty if it is free and has no waiters.
std::string HoldersText(const LockInfo& info);

// The place of the process `self` among the waiters: "next in line", "3 ahead in line". If it is
// not among those listed, how many wait.
std::string PlaceText(const LockInfo& info, const LockInfo::Process& self);

// A holder on this host that is one of `ancestors`, if the wait can only end after that holder
// does: while it holds the lock, the lock is never free, or never has enough permits. Null if there
// is none.
const LockInfo::Party* HeldAbove(const LockInfo& info, const std::string& host,
                                 const std::vector<pid_t>& ancestors, int64_t permits);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_HOLD_H_
