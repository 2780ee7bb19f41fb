// The lock of `redlatch run`, of whichever kind.
#ifndef REDLATCH_SRC_CLI_RUN_HOLD_H_
#define REDLATCH_SRC_CLI_RUN_HOLD_H_

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
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

struct RunAttempt {
  std::string what;       // "lock "x"": what messages call it
  std::string holders{};  // of a busy one: "held by ..."; empty: not known
};

// Connects and acquires, and reports on a terminal while it waits. `connected` is called between
// the two.
absl::StatusOr<RunHold> AcquireHold(const RunOptions& options, std::shared_ptr<Observer> observer,
                                    std::stop_token stop, const std::function<void()>& connected,
                                    RunAttempt& attempt);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_HOLD_H_
