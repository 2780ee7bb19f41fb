// The machine is suspended while a client is busy: only CLOCK_BOOTTIME advances.
#include <sys/syscall.h>

#include <ctime>

#include "tests/support/live_testing.h"

namespace {

std::atomic<int64_t> suspended_s{0};

timespec Read(clockid_t clock) {
  timespec now = {};
  syscall(SYS_clock_gettime, clock, &now);
  return now;
}

// The time by a clock that this test's suspends do not move.
absl::Duration Awake(clockid_t clock = CLOCK_MONOTONIC) {
  return absl::DurationFromTimespec(Read(clock));
}

}  // namespace

// Replaces the C library's function.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  *now = Read(clock);
  if (clock == CLOCK_BOOTTIME) now->tv_sec += suspended_s;
  return 0;
}

namespace redlatch {
namespace {

// The kernel's own timers would wait for at least 19 s more.
constexpr absl::Duration kSuspendSoon = absl::Seconds(10);

struct Suspend : ::testing::Test {
  static void ForAnHour() { suspended_s += 3600; }
  template <class Condition>
  static absl::Duration TimeUntil(Condition condition) {
    const absl::Duration began = Awake();
    while (!condition() && Awake() - began < absl::Minutes(1)) {
      const timespec moment = {.tv_sec = 0, .tv_nsec = 1'000'000};
      nanosleep(&moment, nullptr);
    }
    return Awake() - began;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  Client client_ = Connect(server_->url());
  SimpleLock lock_{client_, "lock"};
};

TEST_F(Suspend, LossIsReportedSoonAfterResume) {
  const auto renewed = Must(lock_.Acquire());
  const auto permit = Must(Semaphore(client_, "semaphore", 1).Acquire());
  const std::stop_token lost = renewed.lost();
  const std::stop_token gone = permit.lost();
  ForAnHour();
  const absl::Duration late =
      TimeUntil([&] { return lost.stop_requested() && gone.stop_requested(); });
  EXPECT_LT(late, kSuspendSoon);
  RecordProperty("late", absl::FormatDuration(late));
}

TEST_F(Suspend, NoThreadSpinsAfterResume) {
  const auto renewed = Must(SimpleLock(client_, "short", {.lease = absl::Seconds(3)}).Acquire());
  ForAnHour();
  const absl::Duration before = Awake(CLOCK_PROCESS_CPUTIME_ID);
  const timespec while_others_run = {.tv_sec = 3, .tv_nsec = 0};
  nanosleep(&while_others_run, nullptr);
  const absl::Duration used = Awake(CLOCK_PROCESS_CPUTIME_ID) - before;
  EXPECT_LT(used, absl::Milliseconds(500)) << "in three seconds";
  RecordProperty("used", absl::FormatDuration(used));
}

}  // namespace
}  // namespace redlatch
