// How many permits there are: who says so, who is refused for it, and what changing it does to
// those who hold and those who wait.

#include "redlatch/owner.h"
#include "tests/conformance/api/semaphore/fixture.h"

namespace redlatch::conformance {
namespace {

class SemaphoreCapacity : public SemaphoreOfThree {
 protected:
  void ExpectCapacity(int64_t capacity) {
    const absl::StatusOr<int64_t> stored = semaphore_->capacity();
    ASSERT_OK(stored);
    EXPECT_EQ(*stored, capacity);
  }
  // At each use, naming both.
  static void ExpectRefused(Semaphore& semaphore, int64_t own, int64_t stored) {
    std::vector<absl::Status> refusals = {Try(semaphore).status(),
                                          semaphore.Acquire(1, {.wait = kPatience}).status(),
                                          semaphore.Acquire().status()};
    for (const absl::Status& refusal : refusals) {
      EXPECT_EQ(CodeOf(refusal), kMisuse);
      EXPECT_THAT(std::string(refusal.message()), HasSubstr(absl::StrCat(own)));
      EXPECT_THAT(std::string(refusal.message()), HasSubstr(absl::StrCat(stored)));
    }
    EXPECT_EQ(Thrown([&] { semaphore.acquire(); }), kMisuse);
    EXPECT_EQ(Thrown([&] { (void)semaphore.try_acquire_for(std::chrono::seconds(5)); }), kMisuse);
  }
};

TEST_P(SemaphoreCapacity, IsTheFirstConstructorsAndAnotherIsRefused) {
  ExpectCapacity(kCapacity);  // though nobody has stored it yet
  EXPECT_EQ(Free(*semaphore_, kCapacity), kCapacity);
  EXPECT_EQ(server().LockKeys().size(), 0);
  auto permit = Try(*semaphore_);
  ASSERT_OK(permit);
  ExpectCapacity(kCapacity);
  for (const int64_t other : {int64_t{41}, int64_t{1}}) {
    ExpectRefused(*NewSemaphore(other_, other), other, kCapacity);
    ExpectRefused(*NewSemaphore(client_, other), other, kCapacity);
  }
  ExpectCapacity(kCapacity);
  EXPECT_EQ(Queued(), 0);
  EXPECT_TRUE(permit->valid());
  EXPECT_TRUE(SoonGetsIn(*theirs_, kCapacity - 1));
}

TEST_P(SemaphoreCapacity, MayBeSetBeforeAnybodyUsesIt) {
  EXPECT_OK(semaphore_->SetCapacity(2));
  ExpectCapacity(2);
  EXPECT_TRUE(SoonGetsIn(*theirs_, 2));
  EXPECT_EQ(CodeOf(Try(*theirs_, 3)), kMisuse);
}

TEST_P(SemaphoreCapacity, OfLessThanOneIsRefused) {
  EXPECT_TRUE(SoonGetsIn(*semaphore_));
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(CodeOf(semaphore_->SetCapacity(bad)), kBadInput) << bad;
    const auto refused = NewSemaphore(other_, bad);
    EXPECT_EQ(CodeOf(refused->TryAcquire()), kBadInput) << bad;
    EXPECT_EQ(CodeOf(refused->Acquire()), kBadInput) << bad;
    EXPECT_EQ(Thrown([&] { refused->acquire(); }), kBadInput) << bad;
  }
  ExpectCapacity(kCapacity);
}

TEST_P(SemaphoreCapacity, IsTheMostThatAnybodyMayAskFor) {
  for (const absl::Duration wait :
       {absl::ZeroDuration(), absl::Milliseconds(50), absl::InfiniteDuration()}) {
    EXPECT_EQ(CodeOf(semaphore_->Acquire(kCapacity + 1, {.wait = wait})), kMisuse);
    EXPECT_EQ(CodeOf(theirs_->Acquire(1'000'000'000, {.wait = wait})), kMisuse);
    for (const int64_t bad :
         {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min(), int64_t{1'000'000'001},
          (int64_t{1} << 32) + 1, std::numeric_limits<int64_t>::max()}) {
      EXPECT_EQ(CodeOf(semaphore_->Acquire(bad, {.wait = wait})), kBadInput) << bad;
    }
    EXPECT_EQ(CodeOf(semaphore_->Acquire(1, {.wait = wait, .owner = Owner("job")})), kBadInput);
  }
  EXPECT_EQ(Queued(), 0);
  EXPECT_TRUE(SoonGetsIn(*semaphore_, kCapacity));
}

INSTANTIATE_CONFORMANCE(SemaphoreCapacity, WithoutSmoke(CasesOf("semaphore")));

}  // namespace
}  // namespace redlatch::conformance
