// The lock of `redlatch run`, of whichever kind.
#ifndef REDLATCH_SRC_CLI_RUN_HOLD_H_
#define REDLATCH_SRC_CLI_RUN_HOLD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lease.h"
#include "redlatch/permit.h"
#include "src/cli/run/options.h"

namespace redlatch::cli {

// What was acquired, a Lease or a Permit.
class RunHold {
 public:
  RunHold(Lease lease, std::string server) : held_(std::move(lease)), server_(std::move(server)) {}
  RunHold(Permit permit, std::string server)
      : held_(std::move(permit)), server_(std::move(server)) {}

  absl::Duration remaining() const;
  std::stop_token lost() const;
  absl::Status Release();

  // None for permits.
  std::optional<FencingToken> token() const;
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

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_HOLD_H_
