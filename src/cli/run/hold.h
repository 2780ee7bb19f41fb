// What `redlatch run` was asked for, its lock, and what it says while it waits for that.
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
  kShared,   // the readers' side of a ReentrantReadWriteLock
  kWrite,    // its writer's side
  kPermits,  // some permits of a Semaphore
  kQuorum,   // a RedLock, of a URL that names a quorum of servers
};

struct RunOptions {
  std::string name;
  std::vector<std::string> command;
  RunKind kind = RunKind::kPlain;
  int64_t permits = 1;
  int64_t capacity = 0;
  absl::Duration wait = absl::InfiniteDuration();
  absl::Duration lease = absl::Seconds(30);
  // Between SIGTERM and SIGKILL.
  absl::Duration grace = absl::Seconds(10);
  bool kill_on_lost = true;
  int busy_code = kBusy;
  std::string server;  // a URL
};

// The exit code if that is all: see CommandLine::Parse().
std::optional<int> ParseRunOptions(const std::vector<std::string>& words, RunOptions* options);

// What was acquired, a Lease or a Permit.
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
  // Null for permits.
  const Lease* lease() const { return std::get_if<Lease>(&held_); }
  // Without user and password.
  const std::string& server() const { return server_; }

 private:
  std::variant<Lease, Permit> held_;
  std::string server_;
};

// Connects and acquires on a thread of its own, and reports on a terminal while it waits.
class RunAttempt {
 public:
  // `what`: "lock "x"": what messages call it. `ended` is called on that thread when it is done.
  RunAttempt(const RunOptions& options, std::shared_ptr<Observer> observer, std::string what,
             std::function<void()> ended);
  ~RunAttempt() = default;  // joins
  RunAttempt(const RunAttempt&) = delete;
  RunAttempt& operator=(const RunAttempt&) = delete;

  bool done() const { return done_; }

  // A signal ends the waiting; and, while it only connects, this process, with nothing to be taken
  // back.
  void CallOff(int signal);

  // Once it is done. The exit code if there is no hold, which it explains on stderr, or if it is to
  // be released at once.
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
  std::string holders_;  // of a busy one: "held by ..."; empty: not known
  absl::StatusOr<RunHold> result_ = absl::UnknownError("");
  std::stop_source stop_;
  std::atomic<Phase> phase_ = Phase::kConnecting;
  std::atomic<bool> done_ = false;
  int called_off_ = 0;  // by which signal
  std::jthread thread_;
};

// "1.5s", without digits that nobody reads.
std::string Rounded(absl::Duration time);

// "held by redlatch run: make (web1, pid 4242) and 2 more"; "4 of 4 permits are taken, by ..."; how
// many are in line if nobody holds it. Empty: there is nothing to tell.
std::string HoldersText(const LockInfo& info);

// "next in line", "3 ahead": the place of the waiter that `self` is. If it is not found there, how
// many wait.
std::string PlaceText(const LockInfo& info, const LockInfo::Process& self);

// The holder on this host, if there is one among these processes, whose end this wait would have to
// outlast: with it the lock can never be free, or never have so many permits.
const LockInfo::Party* HeldAbove(const LockInfo& info, const std::string& host,
                                 const std::vector<pid_t>& ancestors, int64_t permits);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_HOLD_H_
