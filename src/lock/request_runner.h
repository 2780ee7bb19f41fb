#ifndef REDLATCH_SRC_LOCK_REQUEST_RUNNER_H_
#define REDLATCH_SRC_LOCK_REQUEST_RUNNER_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/lock/script_codec.h"
#include "src/lock/state/request.h"
#include "src/redis/wire/reply.h"

namespace redlatch::internal {

// Runs requests where their locks are: at a server, or at a majority of servers. Thread-safe.
class RequestRunner {
 public:
  // All of it outlives the call.
  struct Item {
    Subject subject;
    const Request& request;
    // No caller waits for this result any more from then on, though the batch goes on.
    base::Instant until = base::Instant::Infinite();
  };
  using OnResult = std::function<void(Result result)>;

  virtual ~RequestRunner() = default;

  virtual void RunBatch(absl::Span<const Item> items, base::Instant deadline,
                        absl::Span<Result> results) = 0;
  // Sends a release and returns. `on_result` is called later, on any thread. If this fails, the
  // release was not sent, and `on_result` is not called.
  virtual absl::Status Post(const Subject& subject, const Request& release, OnResult on_result) = 0;
  // Runs a script that is not part of a hold. `own_key`: the suffix of a key of its own, or empty.
  virtual absl::StatusOr<redis::Reply> RunScript(const Subject& subject, const LuaScript& script,
                                                 absl::Span<const std::string> args,
                                                 std::string_view own_key,
                                                 base::Instant deadline) = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_REQUEST_RUNNER_H_
