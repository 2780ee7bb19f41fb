// Many threads of many clients at the same time: never more permits than there are, in whatever
// order it comes, and all of them back in the end.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <stop_token>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/semaphore/fixture.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

class SemaphoreTurmoil : public SemaphoreOfThree {};

TEST_P(SemaphoreTurmoil, ManyThreadsOfOneClientShareIt) {
  constexpr int kThreads = 32;
  for (const int64_t capacity : {int64_t{1}, int64_t{4}, int64_t{kThreads}}) {
    EXPECT_OK(thirds_->SetCapacity(capacity));
    Room room(capacity);
    const int turns = support::Scaled(20);
    Crew crew;
    crew.Start(kThreads, [&](int) {
      for (int i = 0; i < turns; ++i) {
        semaphore_->acquire();
        room.Use();
        semaphore_->release();
      }
    });
    crew.Join();
    EXPECT_EQ(room.uses(), kThreads * turns);
    EXPECT_EQ(Free(*thirds_, capacity), capacity);
  }
  EXPECT_EQ(Thrown([&] { semaphore_->release(); }), kMisuse);
}

TEST_P(SemaphoreTurmoil, ThreadsOfSeveralClientsTakeFewAndManyInEveryWay) {
  constexpr int64_t kMany = 5;
  EXPECT_OK(thirds_->SetCapacity(kMany));
  Room room(kMany);
  std::atomic<int64_t> refused{0};
  const int turns = support::Scaled(60);
  Crew crew;
  for (const Client* client : {&client_, &other_, &third_}) {
    crew.Start(4, [&, client](int thread) {
      const auto semaphore = NewSemaphore(*client);
      std::minstd_rand dice(static_cast<unsigned>(thread) + 1);
      for (int i = 0; i < turns; ++i) {
        const auto draw = dice() % 10;
        if (draw < 3) {
          semaphore->acquire();
          room.Use();
          semaphore->release();
          continue;
        }
        const absl::Duration wait = draw < 5   ? absl::ZeroDuration()
                                    : draw < 7 ? absl::Milliseconds(2)
                                               : kPatience;
        const auto permit =
            semaphore->Acquire(1 + static_cast<int64_t>(dice() % kMany), {.wait = wait});
        if (permit.ok()) {
          room.Use(*permit);
        } else {
          EXPECT_TRUE(CodeOf(permit) == kBusy ||
                      (wait < kPatience && CodeOf(permit) == kUnreachable))
              << permit.status();
          ++refused;
        }
      }
    });
  }
  crew.Join();
  EXPECT_EQ(room.uses() + refused, 12 * turns);
  EXPECT_GT(room.most(), 1);
  EXPECT_EQ(Free(*thirds_, kMany), kMany);
  EXPECT_EQ(Queued(), 0);
}

// Who gets in while it is small is not one too many for what it was, nor is anybody forgotten.
TEST_P(SemaphoreTurmoil, TheCapacityChangesAllTheTime) {
  constexpr int64_t kMost = 6;
  EXPECT_OK(thirds_->SetCapacity(1));
  Room room(kMost);
  std::atomic<bool> over{false};
  std::atomic<int64_t> refused{0};
  Crew crew;
  for (const Client* client : {&client_, &other_}) {
    crew.Start(4, [&, client](int thread) {
      const auto semaphore = NewSemaphore(*client);
      while (!over) {
        const auto permit = semaphore->Acquire(1 + thread, {.wait = kPatience});
        if (permit.ok()) {
          room.Use(*permit);
        } else {
          EXPECT_EQ(CodeOf(permit), kMisuse) << permit.status();
          ++refused;
        }
      }
    });
  }
  std::minstd_rand dice(1);
  for (int i = 0; i < support::Scaled(100); ++i) {
    const int64_t uses = room.uses();
    EXPECT_OK(thirds_->SetCapacity(1 + static_cast<int64_t>(dice() % kMost)));
    EXPECT_TRUE(Await([&] { return room.uses() > uses; }));
  }
  over = true;
  EXPECT_OK(thirds_->SetCapacity(kMost));
  crew.Join();
  EXPECT_GT(room.most(), 1);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(Free(*thirds_, kMost), kMost);
}

TEST_P(SemaphoreTurmoil, ForcedReleasesLoseNoWaiterAndNoPermit) {
  std::atomic<bool> over{false};
  std::atomic<int64_t> turns{0};
  Crew crew;
  for (const Client* client : {&client_, &other_}) {
    crew.Start(3, [&, client](int thread) {
      const auto semaphore = NewSemaphore(*client);
      while (!over) {
        auto permit = semaphore->Acquire(1 + thread, {.wait = kPatience});
        ASSERT_OK(permit);
        const absl::Status released = permit->Release();
        EXPECT_TRUE(released.ok() || released.code() == kLost) << released;
        ++turns;
      }
    });
  }
  for (int i = 0; i < support::Scaled(50); ++i) {
    const int64_t before = turns;
    EXPECT_OK(thirds_->ForceRelease());
    EXPECT_TRUE(Await([&] { return turns > before + 3; }));
  }
  over = true;
  crew.Join();
  EXPECT_EQ(Free(*thirds_, kCapacity), kCapacity);
  EXPECT_EQ(Queued(), 0);
}

INSTANTIATE_FOR_SEMAPHORE(SemaphoreTurmoil);

}  // namespace
}  // namespace redlatch::conformance
