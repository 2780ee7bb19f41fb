#include "src/lock/entry.h"
#include "src/lock/timer_heap.h"
#include "src/lock/weak_map.h"
#include "tests/support/test_scale.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

base::Instant At(int64_t nanos) { return base::Instant::FromNanos(nanos); }

std::unique_ptr<Entry> MakeEntry() {
  static base::Numbers numbers;
  return std::make_unique<Entry>(
      NamedLock{*KeySet::Make("", "x"), std::make_shared<const LockType>(), ""},
      LockState::Config{.numbers = &numbers}, nullptr);
}

TEST(TimerHeap, MovesTimersOnlyEarlier) {
  TimerHeap heap;
  const auto entry = MakeEntry();
  EXPECT_TRUE(heap.SetEarlier(entry->request_timer, At(50)));
  EXPECT_FALSE(entry->request_timer.IsAfter(At(60)));
  EXPECT_FALSE(heap.SetEarlier(entry->request_timer, At(60)));
  EXPECT_EQ(heap.next(), At(50));
  EXPECT_TRUE(heap.SetEarlier(entry->request_timer, At(40)));
  EXPECT_EQ(heap.PopDue(At(39)), nullptr);
  EXPECT_EQ(heap.PopDue(At(40)), entry.get());
  EXPECT_TRUE(heap.next().is_infinite());
  EXPECT_TRUE(entry->request_timer.IsAfter(At(1000)));
}

TEST(TimerHeap, PopsInOrderAfterRandomMovesAndRemovals) {
  const uint32_t seed = support::Seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  TimerHeap heap;
  std::vector<std::unique_ptr<Entry>> entries;
  for (int i = 0; i < 200; ++i) entries.push_back(MakeEntry());
  for (int round = 0; round < support::Scaled(200); ++round) {
    for (int i = 0; i < 500; ++i) {
      Timer& timer = entries[random() % entries.size()]->request_timer;
      if (random() % 4 == 0) {
        heap.Remove(timer);
      } else {
        heap.SetEarlier(timer, At(random() % 1000));
      }
    }
    std::vector<int64_t> due;
    for (const auto& entry : entries) {
      const int64_t at = entry->request_timer.at;
      if (at != base::Instant::Infinite().nanos()) due.push_back(at);
    }
    std::sort(due.begin(), due.end());
    for (const int64_t at : due) {
      ASSERT_EQ(heap.next(), At(at));
      ASSERT_NE(heap.PopDue(At(at)), nullptr);
    }
    ASSERT_TRUE(heap.next().is_infinite());
  }
}

TEST(WeakMap, SizeFollowsLiveObjects) {
  WeakMap<int> map;
  const auto made = [&](int name) {
    return map.Of(absl::StrCat(name), [] { return std::make_shared<int>(); });
  };
  for (int name = 0; name < 1000; ++name) made(name);
  EXPECT_LE(map.size(), 16);
  std::vector<std::shared_ptr<int>> alive;
  for (int name = 0; name < 100; ++name) alive.push_back(made(name));
  for (int name = 100; name < 2000; ++name) made(name);
  EXPECT_LE(map.size(), 200);
  for (int name = 0; name < 100; ++name) EXPECT_EQ(made(name), alive[static_cast<size_t>(name)]);
}

}  // namespace
}  // namespace redlatch::internal
