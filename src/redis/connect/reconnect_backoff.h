#ifndef REDLATCH_SRC_REDIS_CONNECT_RECONNECT_BACKOFF_H_
#define REDLATCH_SRC_REDIS_CONNECT_RECONNECT_BACKOFF_H_

#include <cstddef>
#include <utility>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/random.h"

namespace redlatch::redis {

// When to connect again. The first attempt after a connection is lost is made at once. Those that
// follow are held back, longer each time, until a connection has been of use: it brought much, or
// something and lived for a while. A server that accepts, answers and hangs up is not hurried.
class ReconnectBackoff {
 public:
  ReconnectBackoff(absl::Duration first_backoff, absl::Duration longest_backoff)
      : backoff_(first_backoff, longest_backoff) {}

  base::Instant next_attempt() const { return next_attempt_; }

  void Failed() { next_attempt_ = base::Now() + backoff_.Next(); }
  void Made() {
    made_ = base::Now();
    heard_ = 0;
  }
  // So many answers or messages came.
  void Heard(size_t count) { heard_ += count; }
  void Lost() {
    const base::Instant now = base::Now();
    if (heard_ >= kMuch || (heard_ > 0 && made_ + kAWhile <= now)) {
      backoff_.Reset();
      held_back_ = false;
    }
    next_attempt_ = std::exchange(held_back_, true) ? now + backoff_.Next() : now;
  }

 private:
  static constexpr size_t kMuch = 16;
  static constexpr absl::Duration kAWhile = absl::Milliseconds(250);

  base::Backoff backoff_;
  base::Instant next_attempt_;
  base::Instant made_;
  size_t heard_ = 0;
  bool held_back_ = false;  // the next attempt after a loss
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_RECONNECT_BACKOFF_H_
