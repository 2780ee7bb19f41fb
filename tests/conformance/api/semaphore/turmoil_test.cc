// Many threads of many clients at the same time: never more permits than there are, in whatever
// order it comes, and all of them back in the end.
#include <cstdint>

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

INSTANTIATE_FOR_SEMAPHORE(SemaphoreTurmoil);

}  // namespace
}  // namespace redlatch::conformance
