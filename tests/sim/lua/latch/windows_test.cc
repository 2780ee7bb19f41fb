// A latch for which many wait: each call tells a window of them that it is open.

#include "tests/sim/lua/latch/fixture.h"
#include "tests/sim/lua/script_costs.h"

namespace redlatch {
namespace {

struct LatchWindow : LatchScripts {
  Inbox inbox_{*server_, Channel('b')};
};

TEST_F(LatchWindow, LastCountWakesOneWindowPerCall) {
  Create(1);
  MakeWaiters(150, Channel('b'));
  EXPECT_EQ(CountDown("job"), "0 look 1");
  EXPECT_THAT(Waiting(), SizeIs(86));
  EXPECT_EQ(CountDown("job"), "0 look 1") << "a repeat";
  EXPECT_EQ(CountDown("job", 0), "0") << "and even one that counts nothing";
  EXPECT_EQ(Grants(inbox_), 150);
  EXPECT_EQ(server_->Integer({"EXISTS", Queue(), Waiters()}), 0);
}

TEST_F(LatchWindow, AnyCallAtOpenLatchWakesMore) {
  Create(1);
  MakeWaiters(300, Channel('b'));
  Ask(Waiter('b'));
  CountDown("job");
  EXPECT_EQ(Grants(inbox_), 64);
  Request heartbeat = Waiter('b');
  heartbeat.attempt = 2;
  EXPECT_EQ(Said(Acquire(heartbeat)), Noted(kGranted, "look 1")) << "it had its place still";
  EXPECT_EQ(Grants(inbox_), 64);
  EXPECT_EQ(Said(Acquire(Waiter('c'))), Noted(kGranted, "look 1")) << "a newcomer";
  EXPECT_EQ(Said(Acquire(Impatient(Waiter('d')))), Noted(kGranted, "look 1"));
  EXPECT_EQ(Said(Check()), Noted(kUnknown, ""));
  EXPECT_EQ(Grants(inbox_), 300 - 2 * 64);
}

TEST_F(LatchWindow, WaitersForOtherIncarnationOnlyLeave) {
  Create(1, Incarnation(2));
  MakeWaiters(100, Channel('b'));
  EXPECT_EQ(CountDown("job", 1, Incarnation(2)), "0 look 1");
  EXPECT_EQ(Said(Check()), Noted(kUnknown, ""));
  EXPECT_EQ(inbox_.Next(), "");
  EXPECT_THAT(Waiting(), IsEmpty());
}

// A bar: see script_costs.h.
TEST_F(LatchWindow, CrashedWaitersLeaveAmongLiveOnes) {
  Create(1);
  for (int i = 1; i <= 10; ++i) Ask(Waiter('b', i));
  for (int i = 1; i <= 20; ++i) Ask(Waiter('c', i));
  for (int beat = 0; beat < 60; ++beat) {  // for a lease and three heartbeats
    server_->Pass(1000);
    Ask(Again(Waiter('b', 1 + beat % 10)));
  }
  EXPECT_EQ(server_->Integer({"ZCARD", Queue()}), 10);
  EXPECT_EQ(server_->Integer({"HLEN", Waiters()}), 10);
}

TEST_F(LatchWindow, CostDoesNotGrowWithWaiters) {
  ScriptCosts costs(*server_);
  const auto waiting = [&](int many) {
    Create(1'000);
    MakeWaiters(many, Channel('b'));
  };
  const auto open = [&](int many) {
    waiting(many);
    server_->Command({"HSET", name_, "count", "0"});
  };
  costs.Compare("one more waits", waiting, [&](int i) { Ask(Waiter('c', i)); });
  costs.Compare("a heartbeat", waiting, [&](int) { Ask(Waiter('c')); });
  costs.Compare("one counts down", waiting, [&](int i) { CountDown(absl::StrCat(i)); });
  costs.Compare("one gives up", waiting, [&](int i) { Cancel(Waiter('c', i)); });
  costs.Compare("the latch opens", open, [&](int i) {
    server_->Command({"HSET", name_, "count", "1", "total", "1"});
    EXPECT_THAT(CountDown(absl::StrCat(i)), StartsWith("0"));
  });
  costs.Compare("a heartbeat at an open latch", open, [&](int i) { Ask(Waiter('c', i)); });
  costs.Compare("a check at an open latch", open, [&](int) { Check(); });
  server_->Command({"FLUSHALL"});
}

}  // namespace
}  // namespace redlatch
