#include "src/base/parker.h"

#include <poll.h>
#include <unistd.h>

#include "src/base/wake_event.h"
#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

Instant In(absl::Duration d) { return Now() + d; }

// Whether the owner sleeps cannot be seen from outside; a yield or two makes it likely.
void LetItSleep() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

TEST(ParkerTest, ReturnsAtOnceWhatWasSetBefore) {
  Parker parker;
  EXPECT_EQ(parker.value(), Parker::kArmed);
  parker.Set(7);
  EXPECT_EQ(parker.value(), 7);
  EXPECT_EQ(parker.ParkUntil(Instant::Infinite()), 7);
  EXPECT_EQ(parker.ParkUntil(Instant::FromNanos(0)), 7);
}

TEST(ParkerTest, ReturnsArmedWhereTheDeadlinePassesFirst) {
  Parker parker;
  EXPECT_EQ(parker.ParkUntil(Instant::FromNanos(0)), Parker::kArmed);
  EXPECT_EQ(parker.ParkUntil(Now()), Parker::kArmed);
  const Instant deadline = In(absl::Milliseconds(20));
  EXPECT_EQ(parker.ParkUntil(deadline), Parker::kArmed);
  EXPECT_GE(Now(), deadline);
  EXPECT_EQ(parker.value(), Parker::kArmed);
}

TEST(ParkerTest, CanBeArmedAgain) {
  Parker parker;
  parker.Set(1);
  EXPECT_EQ(parker.ParkUntil(Instant::Infinite()), 1);
  parker.Arm();
  EXPECT_EQ(parker.value(), Parker::kArmed);
  EXPECT_EQ(parker.ParkUntil(Instant::FromNanos(0)), Parker::kArmed);
  parker.Set(2);
  EXPECT_EQ(parker.ParkUntil(Instant::Infinite()), 2);
}

// Two threads hand a turn to and fro, so that every Set() meets its owner on the way to sleep,
// asleep, or not yet there; a lost wake-up would hang.
TEST(ParkerTest, LosesNoWakeUp) {
  constexpr uint32_t kTurns = 20'000;
  Parker mine;
  Parker theirs;
  uint32_t shared = 0;
  std::thread other([&] {
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
  other.join();
}

// The value set is never lost to a deadline that passes at the same moment.
TEST(ParkerTest, LosesNoValueToADeadline) {
  for (uint32_t turn = 1; turn <= 2'000; ++turn) {
    Parker parker;
    std::atomic<bool> set{false};
    std::thread other([&] {
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
    other.join();
  }
}

// Set() touches nothing after its write: the owner frees the word as soon as it has seen the value.
TEST(ParkerTest, MayBeDestroyedAsSoonAsTheValueIsSeen) {
  constexpr uint32_t kTurns = 5'000;
  std::atomic<Parker*> published{nullptr};
  std::thread other([&] {
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
  other.join();
}

TEST(ParkerTest, AnOwnerInPollIsWokenThroughItsDescriptor) {
  Parker parker;
  WakeEvent event;
  ASSERT_TRUE(event.Open());
  ASSERT_TRUE(parker.BeginPolling(event.fd()));
  EXPECT_EQ(parker.value(), Parker::kArmed);
  std::thread other([&] {
    LetItSleep();
    parker.Set(3);
  });
  pollfd wait = {.fd = event.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wait, 1, 10'000), 1);
  parker.EndPolling();
  EXPECT_EQ(parker.value(), 3);
  EXPECT_EQ(parker.ParkUntil(Instant::Infinite()), 3);
  other.join();
}

TEST(ParkerTest, AnOwnerThatHasPolledInVainCanSleep) {
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

}  // namespace
}  // namespace redlatch::base
