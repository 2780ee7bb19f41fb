// What the threads of a soak's processes have in common, whatever it is that they take.
#ifndef REDLATCH_TESTS_FAULT_SOAK_WORKER_H_
#define REDLATCH_TESTS_FAULT_SOAK_WORKER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "tests/fault/soak/child.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/history_writer.h"

namespace redlatch::soak {

// One thread's work: round after round it takes something, holds it for some time and gives it
// back, and writes down what it saw.
class Worker {
 public:
  explicit Worker(const Task& task)
      : history_(task.history),
        thread_(task.thread),
        longest_lease_(task.longest_lease),
        tally_(task.tally),
        dice_(task.seed) {}
  virtual ~Worker() = default;

  void Work(const std::atomic<bool>& stopping) {
    while (!stopping && !history_.full()) {
      Round();
      if (dice_.OneIn(4)) Pass(dice_.Between(absl::ZeroDuration(), most_idle_));
    }
  }

 protected:
  virtual void Round() = 0;

  // How long something is kept: mostly short, now and then beyond the end of a lease.
  virtual absl::Duration HowLong() {
    const int kind = dice_.Below(200);
    if (kind == 0) return dice_.Between(absl::ZeroDuration(), longest_lease_ * 1.2);
    return dice_.Between(absl::ZeroDuration(), absl::Milliseconds(kind < 30 ? 20 : 2));
  }

  std::vector<absl::Duration> Leases() const {
    return {shortest_lease_, (shortest_lease_ + longest_lease_) / 2, longest_lease_};
  }
  AcquireOptions AnyOptions() {
    AcquireOptions options;
    const int way = dice_.Below(5);
    if (way < 2) options.wait = dice_.Between(absl::Milliseconds(1), longest_lease_);
    if (way == 1) options.lease = dice_.Between(shortest_lease_, longest_lease_);
    if (way == 2) options.wait = absl::ZeroDuration();
    return options;
  }
  static bool Waits(const AcquireOptions& options) {
    return options.wait == absl::InfiniteDuration();
  }

  // By the std face: one of its three ways, which `face` calls with what it may wait. False: it was
  // busy, or unreachable.
  enum class Way : uint8_t { kTry, kTryFor, kWait };
  Way AnyWay() {
    const int way = dice_.Below(4);
    return way > 1 ? Way::kWait : way == 1 ? Way::kTryFor : Way::kTry;
  }
  template <class Face>
  bool Enters(uint32_t number, Way way, const Face& face) {
    try {
      if (face(way,
               absl::ToChronoNanoseconds(dice_.Between(absl::Milliseconds(1), longest_lease_)))) {
        return true;
      }
      ++tally_.busy;
      history_.Refused(number, /*certainly=*/true);
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), MakeErrorCode(absl::StatusCode::kUnavailable)) << error.what();
      ++tally_.unreachable;
      history_.Refused(number, /*certainly=*/false);
    }
    return false;
  }
  // By the status face: what came out is OK, or it had to be expected that it is not.
  bool Entered(uint32_t number, const absl::Status& status) {
    if (status.ok()) return true;
    history_.Refused(number, IsBusy(status));
    EXPECT_TRUE(IsBusy(status) || absl::IsUnavailable(status)) << status;
    ++(IsBusy(status) ? tally_.busy : tally_.unreachable);
    return false;
  }

  // Writes down that it is held, with its token.
  void Holds(uint32_t number, uint64_t token) {
    history_.Held(number, token);
    ++tally_.held;
  }
  // False: it is over.
  template <class Held>
  bool Sample(uint32_t number, const Held& held) {
    const base::Instant asked = base::Now();
    const absl::Duration remaining = held.remaining();
    history_.Remaining(number, asked, remaining);
    if (held.lost().stop_requested()) history_.Lost(number);
    return remaining > absl::ZeroDuration();
  }
  template <class Held>
  void Keep(uint32_t number, const Held& held) {
    const base::Instant end = base::Now() + HowLong();
    while (base::Now() < end) {
      Pass(std::min(base::Until(end), absl::Milliseconds(20)));
      if (!Sample(number, held) && dice_.OneIn(2)) return;
    }
  }
  // A lease of the user's own is now and then extended.
  template <class Held>
  void MayExtend(uint32_t number, Held& held, const AcquireOptions& options) {
    if (!options.lease || !dice_.OneIn(2)) return;
    ExpectOkLostOrUnreachable(held.Extend(*options.lease));
    Sample(number, held);
  }
  template <class Held>
  void Release(uint32_t number, Held& held) {
    history_.ReleaseInvoked(number);
    if (dice_.OneIn(8)) {
      const Held ended = std::move(held);  // the destructor's part
      return;
    }
    for (int i = 0; i < 3; ++i) {
      const absl::Status released = held.Release();
      ExpectOkLostOrUnreachable(released);
      if (released.ok()) history_.Released(number);
      if (!absl::IsUnavailable(released)) break;
    }
  }

  support::HistoryWriter& history_;
  const int thread_;
  absl::Duration shortest_lease_ = kShortestLease;
  const absl::Duration longest_lease_;
  absl::Duration most_idle_ = absl::Milliseconds(20);  // between rounds
  Tally& tally_;
  Dice dice_;

 private:
  static void ExpectOkLostOrUnreachable(const absl::Status& status) {
    EXPECT_TRUE(status.ok() || IsLeaseLost(status) || absl::IsUnavailable(status)) << status;
  }
};

}  // namespace redlatch::soak

#endif  // REDLATCH_TESTS_FAULT_SOAK_WORKER_H_
