// Machines of semaphores, where each hold stands for itself.
#include "tests/unit/engine/machine/machine_fixture.h"

namespace redlatch::engine {
namespace {

class PermitMachineTest : public LockMachineTest {
 protected:
  PermitMachineTest() { Make({.sharing = kPermits}); }

  static Answer Permitted() { return Granted(0, kLease, 0); }
};

TEST_F(PermitMachineTest, GivesNoTokensBack) {
  Waiter& waiter = Acquire({.permits = 3});
  Hear(Fetch<ToAcquire>(), Permitted());
  EXPECT_EQ(waiter.token, FencingToken());
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kUnderWay);
  const Send release = Fetch<ToRelease>();
  EXPECT_EQ(As<ToRelease>(release).last_used, As<ToRelease>(release).last_reserved);
  EXPECT_FALSE(release.leaves_tombstone());
  Hear(release, ReleasedThen());
  EXPECT_EQ(machine().Outcome(waiter.hold).kind, Kind::kDone);
  EXPECT_TRUE(machine().idle());
}

TEST_F(PermitMachineTest, AWaiterThatIsToldOfAChangeAsksAtOnce) {
  const Waiter& waiter = Queue({.permits = 3});
  ASSERT_TRUE(Quiet());
  machine().OnForced(machine().grant_id(), now());
  const Send send = Fetch<ToAcquire>();
  Hear(send, Refusal(absl::FailedPreconditionError("too many")));
  EXPECT_EQ(waiter.state, State::kFailed);
  EXPECT_EQ(waiter.failure.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Fetch<ToCancel>().grant, send.grant);  // it may be queued again
}

}  // namespace
}  // namespace redlatch::engine
