#ifndef REDLATCH_TESTS_SUPPORT_PUNCTUALITY_H_
#define REDLATCH_TESTS_SUPPORT_PUNCTUALITY_H_

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/base/unique_fd.h"

namespace redlatch::redis {

// Measures how long after their deadlines calls return.
//
// A busy machine runs every thread late, and calls are not to blame for that. So two times are
// allowed in addition. One is the time for which a call's own thread was ready to run and got no
// processor, as the kernel counts it. The other is the delay of a witness, a thread that only
// sleeps until a deadline; it is allowed once for each participant of a call: the client's other
// threads, the server, a proxy.
class Punctuality {
 public:
  Punctuality() : witness_([this] { Witness(); }) { (void)DelayOfThread(); }
  ~Punctuality() { Stop(); }

  // Notes that a call with this deadline has just returned. Call it after each call. Thread-safe.
  void Note(base::Instant deadline) {
    const absl::Duration late = base::Now() - deadline;
    Raise(calls_, late - DelayOfThread());
  }

  // Notes an event with this deadline that came at that moment, in any thread.
  void Note(base::Instant deadline, base::Instant came) { Raise(calls_, came - deadline); }

  // Succeeds if every call returned at most `grace` after its deadline.
  ::testing::AssertionResult Within(absl::Duration grace) {
    Stop();
    const absl::Duration calls = absl::Nanoseconds(calls_.load());
    const absl::Duration machine = absl::Nanoseconds(machine_.load());
    const bool good = calls <= grace + kHands * machine;
    return (good ? ::testing::AssertionSuccess() : ::testing::AssertionFailure())
           << "a call came back " << calls << " after its deadline, a thread that only sleeps "
           << machine;
  }

 private:
  static constexpr int kHands = 4;

  // How long the calling thread has waited for a processor since this was last called.
  static absl::Duration DelayOfThread() {
    thread_local const base::UniqueFd file(
        open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
    thread_local int64_t before = 0;
    char text[128] = "";
    if (pread(file.get(), text, sizeof text - 1, 0) <= 0) return absl::ZeroDuration();
    char* end = nullptr;
    std::strtoll(text, &end, 10);  // the time it has run
    const int64_t now = std::strtoll(end, nullptr, 10);
    return absl::Nanoseconds(now - std::exchange(before, now));
  }

  static void Raise(std::atomic<int64_t>& worst, absl::Duration late) {
    const int64_t now = absl::ToInt64Nanoseconds(late);
    int64_t seen = worst;
    while (now > seen && !worst.compare_exchange_weak(seen, now)) continue;
  }

  void Witness() {
    while (!stopping_) {
      const base::Instant deadline = base::Now() + absl::Milliseconds(2);
      base::Parker().ParkUntil(deadline);
      Raise(machine_, base::Now() - deadline);
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

#endif  // REDLATCH_TESTS_SUPPORT_PUNCTUALITY_H_
