#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fstream>

#include "src/base/parker.h"
#include "src/base/unique_fd.h"
#include "src/base/wake_event.h"
#include "src/base/way_to_wait.h"
#include "tests/support/await.h"
#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

Instant In(absl::Duration d) { return Now() + d; }

// Returns true if a thread of this process sleeps in the kernel.
bool IsAsleep(pid_t thread) {
  std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/stat"));
  std::string stat;
  std::getline(file, stat);
  return absl::StrContains(stat, ") S ");
}

TEST(ParkerTest, ReturnsEarlierValueAtOnce) {
  Parker parker;
  EXPECT_EQ(parker.value(), Parker::kArmed);
  parker.Set(7);
  EXPECT_EQ(parker.value(), 7);
  EXPECT_EQ(parker.ParkUntil(Instant::Infinite()), 7);
  EXPECT_EQ(parker.ParkUntil(Instant::FromNanos(0)), 7);
}

TEST(ParkerTest, ReturnsArmedAtDeadline) {
  Parker parker;
  EXPECT_EQ(parker.ParkUntil(Instant::FromNanos(0)), Parker::kArmed);
  EXPECT_EQ(parker.ParkUntil(Now()), Parker::kArmed);
  const Instant deadline = In(absl::Milliseconds(20));
  EXPECT_EQ(parker.ParkUntil(deadline), Parker::kArmed);
  EXPECT_GE(Now(), deadline);
  EXPECT_EQ(parker.value(), Parker::kArmed);
}

// Two threads pass a turn to and fro, so that Set() finds its owner going to sleep, asleep, or not
// there yet. A lost wake-up would hang.
TEST(ParkerTest, LosesNoWakeUp) {
  constexpr uint32_t kTurns = 20'000;
  Parker mine;
  Parker theirs;
  uint32_t shared = 0;
  std::jthread other([&] {
    for (uint32_t turn = 1; turn <= kTurns; ++turn) {
      ASSERT_EQ(theirs.ParkUntil(Instant::Infinite()), turn);
      theirs.Arm();
      ++shared;
      mine.Set(turn);
    }
  });
  for (uint32_t turn = 1; turn <= kTurns; ++turn) {
    ++shared;
    theirs.Set(turn);
    ASSERT_EQ(mine.ParkUntil(Instant::Infinite()), turn);
    mine.Arm();
    ASSERT_EQ(shared, 2 * turn);
  }
}

// A value is never lost to a deadline that passes at the same moment.
TEST(ParkerTest, LosesNoValueToDeadline) {
  for (uint32_t turn = 1; turn <= 2'000; ++turn) {
    Parker parker;
    std::atomic<bool> set{false};
    std::jthread other([&] {
      parker.Set(turn);
      set = true;
    });
    uint32_t value = Parker::kArmed;
    while (value == Parker::kArmed) {
      const bool set_before = set;
      value = parker.ParkUntil(In(absl::Microseconds(turn % 50)));
      if (set_before) {
        EXPECT_EQ(value, turn);
      }
    }
    EXPECT_EQ(value, turn);
  }
}

// Set() touches nothing after its write, because the owner frees the word once it sees the value.
TEST(ParkerTest, MayBeDestroyedOnceValueIsSeen) {
  constexpr uint32_t kTurns = 5'000;
  std::atomic<Parker*> published{nullptr};
  std::jthread other([&] {
    for (uint32_t turn = 1; turn <= kTurns; ++turn) {
      Parker* parker = nullptr;
      while ((parker = published.exchange(nullptr)) == nullptr) std::this_thread::yield();
      parker->Set(turn);
    }
  });
  for (uint32_t turn = 1; turn <= kTurns; ++turn) {
    auto parker = std::make_unique<Parker>();
    published = parker.get();
    EXPECT_EQ(parker->ParkUntil(Instant::Infinite()), turn);
  }
}

TEST(ParkerTest, WakesPollThroughDescriptor) {
  Parker parker;
  WakeEvent event;
  ASSERT_TRUE(event.Open());
  ASSERT_TRUE(parker.BeginPolling(event.fd()));
  EXPECT_EQ(parker.value(), Parker::kArmed);
  std::jthread other([&, owner = gettid()] {
    EXPECT_TRUE(support::Await([&] { return IsAsleep(owner); }));
    parker.Set(3);
  });
  pollfd wait = {.fd = event.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wait, 1, 10'000), 1);
  parker.EndPolling();
  EXPECT_EQ(parker.value(), 3);
  EXPECT_EQ(parker.ParkUntil(Instant::Infinite()), 3);
}

TEST(ParkerTest, CanSleepAfterPollTimesOut) {
  Parker parker;
  WakeEvent event;
  ASSERT_TRUE(event.Open());
  ASSERT_TRUE(parker.BeginPolling(event.fd()));
  parker.EndPolling();
  EXPECT_EQ(parker.ParkUntil(Now()), Parker::kArmed);
  parker.Set(3);
  EXPECT_EQ(parker.ParkUntil(Instant::Infinite()), 3);
  uint64_t count = 0;
  EXPECT_EQ(read(event.fd(), &count, sizeof count), -1) << "woken though it did not poll";
}

bool IsReady(const WakeEvent& event) {
  pollfd wait = {.fd = event.fd(), .events = POLLIN, .revents = 0};
  return poll(&wait, 1, 0) == 1;
}

TEST(WakeEvent, IsReadyFromASignalUntilItIsDrainedAlsoIfReopened) {
  WakeEvent event;
  ASSERT_TRUE(event.Open());
  EXPECT_FALSE(IsReady(event));
  event.Signal();
  event.Signal();
  EXPECT_TRUE(IsReady(event));
  event.Drain();
  EXPECT_FALSE(IsReady(event));
  const int number = event.fd();
  event.Signal();
  ASSERT_TRUE(event.Open());
  EXPECT_EQ(event.fd(), number);
  EXPECT_TRUE(IsReady(event));
}

using Way = WayToWait::Way;

// What a wait costs in this world, for each way to wait.
struct World {
  absl::Duration patient;
  absl::Duration eager;
  absl::Duration cost(Way way) const { return way == WayToWait::kEager ? eager : patient; }
};

constexpr World kSpinningPays = {absl::Microseconds(60), absl::Microseconds(20)};
constexpr World kSpinningHurts = {absl::Microseconds(60), absl::Microseconds(90)};
constexpr World kSlow = {absl::Milliseconds(50), absl::Milliseconds(50)};

struct WayToWaitTest : ::testing::Test {
  // Waits that many times; returns how many of the waits were eager.
  int Live(const World& world, int waits) {
    int eager = 0;
    for (int i = 0; i < waits; ++i) {
      const Way way = wait_.way();
      if (way == WayToWait::kEager) ++eager;
      wait_.Record(world.cost(way));
    }
    return eager;
  }

  WayToWait wait_{{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
};

TEST_F(WayToWaitTest, StaysEagerIfThatPays) {
  Live(kSpinningPays, 100);
  EXPECT_GT(Live(kSpinningPays, 10'000), 9'900);
}

TEST_F(WayToWaitTest, TurnsPatientIfThatIsCheaper) {
  EXPECT_LT(Live(kSpinningHurts, 200), 50);
  EXPECT_LT(Live(kSpinningHurts, 10'000), 100);
}

TEST_F(WayToWaitTest, NoticesSlowServerSoon) {
  Live(kSpinningPays, 100'000);
  EXPECT_LT(Live(kSlow, 500), 250);
  EXPECT_LT(Live(kSlow, 1'000), 100);
}

TEST_F(WayToWaitTest, NoticesFastServer) {
  Live(kSlow, 100'000);
  Live(kSpinningPays, 10'000);
  EXPECT_GT(Live(kSpinningPays, 1'000), 900);
}

TEST_F(WayToWaitTest, RareDelayChangesNothing) {
  Live(kSpinningPays, 1'000);
  int eager = 0;
  for (int i = 0; i < 100; ++i) {
    wait_.Record(absl::Seconds(1));
    eager += Live(kSpinningPays, 100);
  }
  EXPECT_GT(eager, 8'000);
  EXPECT_EQ(wait_.way(), WayToWait::kEager);
}

}  // namespace
}  // namespace redlatch::base
