#ifndef REDLATCH_SRC_LOCK_REQUEST_RUNNER_H_
#define REDLATCH_SRC_LOCK_REQUEST_RUNNER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/lock/script_codec.h"
#include "src/lock/state/request.h"
#include "src/redis/link/connection.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/wire/codec.h"

namespace redlatch::internal {

// A request that was sent and whose reply is still to come; see RequestRunner::Post().
struct RequestInFlight {
  redis::InFlight in_flight;  // its `done` is called when the result is there
  absl::StatusOr<redis::Reply> reply;
  std::optional<Result> result;  // set if it is known without a reply
};

// Runs requests where their locks are: at a server, or at a majority of servers. Thread-safe.
class RequestRunner {
 public:
  // REQUIRES: everything that it refers to outlives the call.
  struct Item {
    Subject subject;
    const Request& request;
    // No caller waits for the result after this, though the batch continues.
    base::Instant until = base::Instant::Infinite();
  };

  virtual ~RequestRunner() = default;

  // `still_wanted` is asked before the request is sent again; false ends the call.
  virtual Result Run(const Subject& subject, const Request& request, base::Instant deadline,
                     redis::StillWanted still_wanted) = 0;
  virtual void RunBatch(absl::Span<const Item> items, base::Instant deadline,
                        absl::Span<Result> results) = 0;
  // The same for renewals at one server that replicas must confirm; see ServerGroup::RunAcked().
  virtual absl::StatusOr<base::Acks> RunConfirmed(absl::Span<const Item> items,
                                                  const base::AcksWanted& wanted,
                                                  absl::Duration ack_timeout,
                                                  base::Instant deadline,
                                                  absl::Span<Result> results) = 0;
  // Sends a request and returns; a quorum takes only releases. If this fails, it was not sent, and
  // `done` is not called.
  virtual absl::Status Post(const Subject& subject, const Request& request,
                            RequestInFlight& posted) = 0;
  // Runs a script that is not part of a hold. `own_key`: the suffix of a key of its own, or empty.
  virtual absl::StatusOr<redis::Reply> RunScript(const Subject& subject, const LuaScript& script,
                                                 absl::Span<const std::string> args,
                                                 std::string_view own_key,
                                                 base::Instant deadline) = 0;
};

// Runs requests as script calls at a server group.
class ServerRunner final : public RequestRunner {
 public:
  explicit ServerRunner(redis::ServerGroup& group) : group_(group) {}

  Result Run(const Subject& subject, const Request& request, base::Instant deadline,
             redis::StillWanted still_wanted) override;
  void RunBatch(absl::Span<const Item> items, base::Instant deadline,
                absl::Span<Result> results) override;
  absl::StatusOr<base::Acks> RunConfirmed(absl::Span<const Item> items,
                                          const base::AcksWanted& wanted,
                                          absl::Duration ack_timeout, base::Instant deadline,
                                          absl::Span<Result> results) override;
  absl::Status Post(const Subject& subject, const Request& request,
                    RequestInFlight& posted) override;
  absl::StatusOr<redis::Reply> RunScript(const Subject& subject, const LuaScript& script,
                                         absl::Span<const std::string> args,
                                         std::string_view own_key, base::Instant deadline) override;

 private:
  // Builds the calls, runs them with `run`, and hands out their results.
  template <class Function>
  static auto RunAll(absl::Span<const Item> items, absl::Span<Result> results, Function run);

  redis::ServerGroup& group_;
};

// A quorum of servers, which runs requests itself. It takes commands, but no script calls.
class QuorumRunner : public redis::ServerGroup, public RequestRunner {
 public:
  QuorumRunner() : ServerGroup(/*runner=*/nullptr) {}

  struct Options {
    std::string name;  // for messages
    absl::Duration restart_delay = absl::ZeroDuration();
    std::string problem;  // why it cannot be used, or empty
    size_t servers = 0;
    std::function<std::unique_ptr<redis::ServerGroup>(size_t server, Events events)> make;
  };
  using Make = std::unique_ptr<QuorumRunner> (*)(Options options, Events events);

  using RequestRunner::Post;
  using RequestRunner::Run;
  using ServerGroup::Post;
  using ServerGroup::Run;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_REQUEST_RUNNER_H_
