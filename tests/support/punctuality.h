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

// How much later than their deadlines calls come back.
//
// A machine that is busy with other things runs every thread late, whatever it waits for, and that
// is no fault of the calls. So a call is excused for the time that its own thread was ready to run
// and got no processor, as the kernel counts it; and all are, for as much as a witness came late, a
// thread that does nothing but sleep to a deadline meanwhile, for each of the hands that a call
// goes through: the client's other threads, the server, a proxy before it.
class Punctuality {
 public:
  Punctuality() : witness_([this] { Witness(); }) { (void)DelayOfThread(); }
  ~Punctuality() { Stop(); }

  // A call with this deadline has just returned; called after each call of a thread. Thread-safe.
  void Note(base::Instant deadline) {
    const absl::Duration late = base::Now() - deadline;
    Raise(calls_, late - DelayOfThread());
  }

  // Something that came at that moment in a thread of which no more is known.
  void Note(base::Instant deadline, base::Instant came) { Raise(calls_, came - deadline); }

  // Whether every call was back by its deadline and `grace` more.
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
