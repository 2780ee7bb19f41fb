#ifndef REDLATCH_SRC_LOCK_REPEATED_SCRIPT_H_
#define REDLATCH_SRC_LOCK_REPEATED_SCRIPT_H_

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/lock/event_driver.h"
#include "src/lock/event_script.h"

namespace redlatch::internal {

// Runs a script that is not part of a grant, and repeats it until it is answered: LockHandle::Run()
// without a thread. Another thread waits for the server.
class RepeatedScript final : public EventTask {
 public:
  struct Call {
    const void* object;  // the lock object that began it
    std::stop_token stop;
    base::Instant until;
    std::function<EventReplyPtr(EventTask&)> attempt;
    // Called by the library with the result, as a completion. It may keep the client alive.
    absl::AnyInvocable<void(absl::StatusOr<redis::Reply>) &&> then;
  };
  RepeatedScript(EventDriver& driver, Call call) : driver_(driver), call_(std::move(call)) {}

  const void* object() const override { return call_.object; }
  std::stop_token stop() const override { return call_.stop; }

 private:
  bool Step(unsigned events, base::Instant now) override;
  base::Instant due() const override;
  bool End(absl::StatusOr<redis::Reply> reply);

  EventDriver& driver_;
  Call call_;
  base::Instant try_at_;
  base::Backoff backoff_{absl::Milliseconds(10), absl::Milliseconds(500)};
  EventReplyPtr reply_;  // while the request is in flight
};

// Runs a completion of the library at a given time, or when the client ends before.
class EventTimer final : public EventTask {
 public:
  EventTimer(EventDriver& driver, base::Instant at, EventDriver::Completion completion)
      : driver_(driver), at_(at), completion_(std::move(completion)) {}

 private:
  bool Step(unsigned events, base::Instant now) override {
    if ((events & (kEnding | kOver)) == 0 && now < at_) return true;
    driver_.Complete(std::move(completion_), EventDriver::Whose::kOwn);
    return false;
  }
  base::Instant due() const override { return at_; }

  EventDriver& driver_;
  const base::Instant at_;
  EventDriver::Completion completion_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_REPEATED_SCRIPT_H_
