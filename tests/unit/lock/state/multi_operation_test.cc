#include "src/lock/state/multi_operation.h"

#include <utility>

#include "gtest/gtest.h"

namespace redlatch::internal {
namespace {

using Kind = MultiOperation::Action::Kind;

struct MultiOperationTest : ::testing::Test {
  MultiOperation::Action Resume(MultiOperation& operation, absl::Status outcome = {},
                                bool stopped = false) {
    return operation.Resume(
        std::move(outcome), [this](size_t lock) { return lock != lost_; }, stopped, now_);
  }

  base::Instant now_ = base::Instant() + absl::Seconds(100);
  const base::Instant deadline_ = now_ + absl::Seconds(5);
  size_t lost_ = 9;
};

TEST_F(MultiOperationTest, WaitsForEachLockOfOneClientInOrder) {
  MultiOperation operation(2, /*ordered=*/true, deadline_);
  for (size_t i = 0; i < 2; ++i) {
    const auto action = Resume(operation);
    EXPECT_EQ(action.kind, Kind::kTake);
    EXPECT_EQ(action.lock, i);
    EXPECT_EQ(action.until, deadline_);
  }
  EXPECT_EQ(Resume(operation).kind, Kind::kDone);
  EXPECT_TRUE(operation.outcome().ok());
}

TEST_F(MultiOperationTest, NextRoundBeginsWithRefusedLock) {
  MultiOperation operation(3, /*ordered=*/false, deadline_);
  EXPECT_EQ(Resume(operation).until, deadline_);
  EXPECT_EQ(Resume(operation).until, now_);  // while it holds one, it does not wait
  const auto action = Resume(operation, absl::DeadlineExceededError("busy"));
  EXPECT_EQ(action.kind, Kind::kGiveBack);
  EXPECT_EQ(action.lock, 0U);
  EXPECT_EQ(Resume(operation).kind, Kind::kSleep);
  EXPECT_EQ(Resume(operation).lock, 1U);
  EXPECT_EQ(Resume(operation).lock, 2U);
  EXPECT_EQ(Resume(operation).lock, 0U);
}

TEST_F(MultiOperationTest, GivesAllBackIfOneWasLostMeanwhile) {
  MultiOperation operation(2, /*ordered=*/true, now_);
  lost_ = 0;
  Resume(operation), Resume(operation);
  EXPECT_EQ(Resume(operation).lock, 1U);
  EXPECT_EQ(Resume(operation).lock, 0U);
  EXPECT_EQ(Resume(operation).kind, Kind::kDone);  // its wait is over
  EXPECT_TRUE(absl::IsAborted(operation.outcome()));
}

TEST_F(MultiOperationTest, EndsWhenStoppedBetweenRounds) {
  MultiOperation operation(2, /*ordered=*/false, deadline_);
  Resume(operation);
  EXPECT_EQ(Resume(operation, absl::UnavailableError("down"), /*stopped=*/true).kind, Kind::kDone);
  EXPECT_TRUE(absl::IsCancelled(operation.outcome()));
}

}  // namespace
}  // namespace redlatch::internal
