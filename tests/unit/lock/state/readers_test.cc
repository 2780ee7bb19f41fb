// Lock states of semaphores, which have one hold each.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct PermitStateTest : LockStateTest {
  PermitStateTest() { Make({.use = GrantUse::kPermit}); }

  static Result Permitted() { return Granted(0, kLease, 0); }
};

TEST_F(PermitStateTest, GivesNoTokensBack) {
  Waiter& waiter = Answered(Permitted(), {.permits = 3});
  EXPECT_EQ(waiter.token, FencingToken());
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kUnconfirmed);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_EQ(As<ReleaseRequest>(release).last_used, As<ReleaseRequest>(release).last_reserved);
  EXPECT_FALSE(release.leaves_tombstone());
  Deliver(release, ReleasedThen());
  EXPECT_EQ(state().Outcome(waiter.hold).kind, Kind::kDone);
  EXPECT_TRUE(state().idle());
}

TEST_F(PermitStateTest, WaiterAsksAtOnceWhenToldToAskAgain) {
  const Waiter& waiter = Queue({.permits = 3});
  ASSERT_TRUE(Quiet());
  state().OnForced(state().grant_id(), now());
  const Request request = Fetch<AcquireRequest>();
  Deliver(request, Refusal(absl::FailedPreconditionError("too many")));
  EXPECT_EQ(waiter.state, State::kFailed);
  EXPECT_EQ(waiter.failure.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Fetch<CancelRequest>().grant, request.grant);  // it may be queued again
}

}  // namespace
}  // namespace redlatch::internal
