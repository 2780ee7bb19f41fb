#ifndef REDLATCH_SRC_LOCK_STATE_SCRIPT_OPERATION_H_
#define REDLATCH_SRC_LOCK_STATE_SCRIPT_OPERATION_H_

#include <algorithm>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/lock/state/operation.h"

namespace redlatch::internal {

// Runs a script that is not part of a grant, such as one of a latch. It is repeated, with a
// back-off, for as long as no server answers.
class ScriptOperation final : public Operation {
 public:
  struct Call {
    const LuaScript* script = nullptr;
    // Returns the arguments of an attempt; the first one has the number 0.
    std::function<std::vector<std::string>(int attempt)> args;
    std::string own_key = {};  // as in ScriptRequest
    base::Instant until;
    absl::Duration command_timeout;  // of each attempt
  };
  explicit ScriptOperation(Call call) : call_(std::move(call)) {}

  bool NeedsWake() override { return true; }

  Action Resume(const Event& event, base::Instant now, LockState&, Effects&) override {
    try {
      return Resume(event, now);
    } catch (const std::bad_alloc&) {
      outcome_ = base::NoMemory();
      return {};
    }
  }

  // The text of the reply.
  absl::StatusOr<std::string>& outcome() { return outcome_; }

 private:
  Action Resume(const Event& event, base::Instant now) {
    if (event.result != nullptr) {
      const Failed* const failed = event.result->failed();
      if (failed == nullptr) {
        outcome_ = std::get<ScriptText>(event.result->what).text;
        return {};
      }
      outcome_ = base::Unshared(failed->why);
      try_at_ = now + backoff_.Next();
      if (!absl::IsUnavailable(failed->why) || call_.until <= try_at_) return {};
    }
    if (event.stopped || event.gone) {
      outcome_ = absl::CancelledError("the wait was stopped");
      return {};
    }
    if (now < try_at_) return {.kind = Action::Kind::kSleep, .until = try_at_};
    request_ = Request{.what = ScriptRequest{.script = call_.script,
                                             .args = call_.args(attempts_),
                                             .own_key = call_.own_key},
                       .sent = now};
    ++attempts_;
    return {.kind = Action::Kind::kRun,
            .until = std::min(call_.until, now + call_.command_timeout)};
  }

  const Call call_;
  int attempts_ = 0;
  base::Instant try_at_;
  base::Backoff backoff_{absl::Milliseconds(10), absl::Milliseconds(500)};
  absl::StatusOr<std::string> outcome_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_SCRIPT_OPERATION_H_
