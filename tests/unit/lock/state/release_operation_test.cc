#include "src/lock/state/release_operation.h"

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

using Action = Operation::Action;

struct ReleaseOperationTest : LockStateTest {
  ReleaseOperationTest() {
    Waiter& waiter = Answered(Granted());
    operation_.emplace(
        ReleaseOperation::Call{.hold = waiter.hold, .deadline = now() + absl::Seconds(1)});
  }
  Action Resume(const Result* result = nullptr) {
    Effects effects;
    return operation_->Resume({.result = result}, now(), state(), effects);
  }
  Action Resume(const Result& result) { return Resume(&result); }

  std::optional<ReleaseOperation> operation_;
};

TEST_F(ReleaseOperationTest, RunsReleaseAndEndsWithServersReply) {
  ASSERT_EQ(Resume().kind, Action::Kind::kRun);
  EXPECT_EQ(Resume({.what = Freed()}).kind, Action::Kind::kDone);
  EXPECT_EQ(operation_->released().kind, Kind::kDone);
  EXPECT_TRUE(Quiet());
}

TEST_F(ReleaseOperationTest, NothingButTheServerEndsIt) {
  ASSERT_EQ(Resume().kind, Action::Kind::kRun);
  Operation& operation = *operation_;
  EXPECT_FALSE(operation.NeedsWake() || operation.Overslept());
  EXPECT_FALSE(operation.ends_with_client());
}

TEST_F(ReleaseOperationTest, LeavesRepeatedFailureToBackground) {
  ASSERT_EQ(Resume().kind, Action::Kind::kRun);
  ASSERT_EQ(Resume(NoResult()).kind, Action::Kind::kRun);
  EXPECT_EQ(Resume(NoResult()).kind, Action::Kind::kDone);
  EXPECT_EQ(operation_->released().kind, Kind::kUnconfirmed);
  Pass(absl::Seconds(1));
  Fetch<ReleaseRequest>();
}

TEST_F(ReleaseOperationTest, AwaitsReleaseSentWithAcquire) {
  ASSERT_EQ(Resume().kind, Action::Kind::kRun);
  operation_->Postpone(state());
  const Request taken = Fetch<ReleaseRequest>();
  const Action sleep = Resume();
  ASSERT_EQ(sleep.kind, Action::Kind::kSleep);
  Deliver(taken, {.what = Freed()});
  PassTo(sleep.until);
  EXPECT_EQ(Resume().kind, Action::Kind::kDone);
  EXPECT_EQ(operation_->released().kind, Kind::kDone);
}

}  // namespace
}  // namespace redlatch::internal
