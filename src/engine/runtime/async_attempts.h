#ifndef REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_ATTEMPTS_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_ATTEMPTS_H_

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/engine/runtime/async_driver.h"

namespace redlatch::engine {

// Something rare that only a thread can do: tried on the driver's, a moment at a time, since others
// are kept waiting by it.
class AsyncAttempts final : public AsyncTask {
 public:
  // Tries until `by`; true: it is done. With a failure: it is over, and to be told so.
  using Attempt = absl::AnyInvocable<bool(base::Instant by, const absl::Status& failure)>;
  AsyncAttempts(const void* object, Attempt attempt)
      : object_(object), attempt_(std::move(attempt)) {}

  const void* object() const override { return object_; }

 private:
  bool Step(unsigned events, base::Instant now) override {
    if ((events & (kStopped | kEnding | kOver)) != 0) {
      attempt_(now, absl::CancelledError("the wait was stopped"));
      return false;
    }
    if (now < due_) return true;
    if (attempt_(now + moment_, absl::OkStatus())) return false;
    due_ = base::Now() + moment_ / 2;
    moment_ = std::min(2 * moment_, kLongest);
    return true;
  }
  base::Instant due() const override { return due_; }

  static constexpr absl::Duration kLongest = absl::Milliseconds(400);
  const void* const object_;
  Attempt attempt_;
  absl::Duration moment_ = absl::Milliseconds(25);
  base::Instant due_;
};

// A completion of the library's own, at that time, or where the client ends before.
class AsyncTimer final : public AsyncTask {
 public:
  AsyncTimer(AsyncDriver& driver, base::Instant at, AsyncDriver::Completion completion)
      : driver_(driver), at_(at), completion_(std::move(completion)) {}

 private:
  bool Step(unsigned events, base::Instant now) override {
    if ((events & (kEnding | kOver)) == 0 && now < at_) return true;
    driver_.Complete(std::move(completion_), AsyncDriver::Whose::kOwn);
    return false;
  }
  base::Instant due() const override { return at_; }

  AsyncDriver& driver_;
  const base::Instant at_;
  AsyncDriver::Completion completion_;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_ATTEMPTS_H_
