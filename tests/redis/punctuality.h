#ifndef REDLATCH_TESTS_REDIS_PUNCTUALITY_H_
#define REDLATCH_TESTS_REDIS_PUNCTUALITY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/base/parker.h"

namespace redlatch::redis {

// How much later than their deadlines calls come back. A machine that is busy with other things
// wakes every thread late, whatever it waits for: a witness, a thread that does nothing but sleep
// to a deadline meanwhile, tells by how much, and that is no fault of the calls.
class Punctuality {
 public:
  Punctuality() : witness_([this] { Witness(); }) {}
  ~Punctuality() { Stop(); }

  // A call with this deadline has just returned. Thread-safe.
  void Note(base::Instant deadline) { Raise(calls_, deadline); }

  // Whether every call was back by its deadline and `grace` more.
  ::testing::AssertionResult Within(absl::Duration grace) {
    Stop();
    const absl::Duration calls = absl::Nanoseconds(calls_.load());
    const absl::Duration machine = absl::Nanoseconds(machine_.load());
    const bool good = calls <= grace + machine;
    return (good ? ::testing::AssertionSuccess() : ::testing::AssertionFailure())
           << "a call came back " << calls << " after its deadline; a thread that only sleeps, "
           << machine;
  }

 private:
  static void Raise(std::atomic<int64_t>& worst, base::Instant deadline) {
    const int64_t late = absl::ToInt64Nanoseconds(base::Now() - deadline);
    int64_t seen = worst;
    while (late > seen && !worst.compare_exchange_weak(seen, late)) continue;
  }

  void Witness() {
    while (!stopping_) {
      const base::Instant deadline = base::Now() + absl::Milliseconds(2);
      base::Parker().ParkUntil(deadline);
      Raise(machine_, deadline);
    }
  }

  void Stop() {
    stopping_ = true;
    if (witness_.joinable()) witness_.join();
  }

  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> calls_ = 0;
  std::atomic<int64_t> machine_ = 0;
  std::thread witness_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_TESTS_REDIS_PUNCTUALITY_H_
