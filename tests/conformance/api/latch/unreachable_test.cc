// A server that hangs, goes, comes back, or forgets its scripts, while it keeps a latch.
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/scripts.h"
#include "src/base/parker.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/conformance/api/outage.h"
#include "tests/support/punctuality.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

constexpr absl::Duration kGiveUp = absl::Milliseconds(300);
constexpr absl::Duration kBackoff = absl::Milliseconds(500);  // between attempts, at most

class LatchUnreachable : public WithOutages<LatchConformance> {
 protected:
  LatchUnreachable() : WithOutages({.append_only = true}) {}

  // One to go, of two. Has waited once, so that its client is subscribed.
  std::unique_ptr<CountDownLatch> NewUsedLatch(const Client& client) {
    auto latch = NewLatch(client, 2);
    EXPECT_TRUE(Await([&] { return latch->CountDown(1, "somebody").ok(); }));
    EXPECT_TRUE(Await([&] { return CodeOf(WaitFor(*latch, absl::Milliseconds(1))) == kBusy; }));
    EXPECT_TRUE(AwaitQueued(0));
    return latch;
  }
  static void ExpectNotClosedInTime(CountDownLatch& latch) {
    const auto waits = [&](int wait_ms) {
      return CodeOf(latch.Wait({.wait = absl::Milliseconds(wait_ms)}));
    };
    ExpectUnreachable({{kTimeout, [&] { return waits(0); }},
                       {kTimeout, [&] { return Thrown([&] { (void)latch.try_wait(); }); }},
                       {absl::Milliseconds(1), [&] { return waits(1); }},
                       {absl::Milliseconds(80), [&] { return waits(80); }}});
  }
};

TEST_P(LatchUnreachable, ServerIsNoClosedLatch) {
  const Client client = NewClient();
  const auto latch = NewUsedLatch(client);
  const auto unused = NewLatch(client, 2, "unused");
  for (const How how : {How::kHangs, How::kIsDown}) {
    const Outage outage(server(), how);
    ExpectNotClosedInTime(*latch);
    ExpectNotClosedInTime(*unused);
  }
  EXPECT_TRUE(Await([&] { return CountOf(*latch) == 1; }));
  EXPECT_TRUE(Await([&] { return CountOf(*unused) == 2; }));
}

TEST_P(LatchUnreachable, ServerThatComesBackInTimeFailsNobodyWhoLooks) {
  const Client client = ClientAt(url(), "command_timeout=20s");
  const auto used = NewUsedLatch(client);
  for (const How how : {How::kHangs, How::kIsDown}) {
    const auto unused = NewLatch(client, 2, how == How::kHangs ? "hangs" : "is down");
    std::optional<Outage> outage(std::in_place, server(), how);
    Crew crew;
    for (const auto* each : {&used, &unused}) {
      crew.Start([each] { EXPECT_NO_THROW(EXPECT_FALSE((*each)->try_wait())); });
    }
    base::Parker().ParkUntil(base::Now() + absl::Milliseconds(300));
    outage.reset();
  }
}

TEST_P(LatchUnreachable, ServerFailsCallsWithoutADeadlineAfterAWhile) {
  const Client client = NewClient({.unreachable_after = kGiveUp});
  const auto latch = NewUsedLatch(client);
  const auto unused = NewLatch(client, 2, "unused");
  for (const How how : {How::kHangs, How::kIsDown}) {
    const Outage outage(server(), how);
    Punctuality punctuality;
    const auto expect_gives_up = [&](const auto& call) {
      const base::Instant began = base::Now();
      EXPECT_EQ(call(), kUnreachable);
      punctuality.Note(began + kGiveUp);
    };
    expect_gives_up([&] { return CodeOf(latch->Wait()); });
    expect_gives_up([&] { return CodeOf(latch->CountDown(1, "job")); });
    expect_gives_up([&] { return CodeOf(latch->Count()); });
    expect_gives_up([&] { return CodeOf(unused->Count()); });
    expect_gives_up([&] { return Thrown([&] { latch->wait(); }); });
    expect_gives_up([&] { return Thrown([&] { latch->arrive_and_wait(0); }); });
    EXPECT_TRUE(punctuality.Within(kGrace));
  }
  EXPECT_TRUE(Await([&] { return latch->CountDown(1, "job").ok(); }));
  EXPECT_EQ(CountOf(*latch), 0);
}

TEST_P(LatchUnreachable, ServerThatAnswersIsReachedByWhoeverHasNoPatienceWithOneThatDoesNot) {
  const Client client =
      NewClient({.connect = ConnectPolicy::kLazy, .unreachable_after = absl::ZeroDuration()});
  const auto latch = NewLatch(client, 2);
  // Again where a busy machine is slow to answer: each is given but a moment.
  EXPECT_TRUE(Await([&] { return CountOf(*latch) == 2; }));
  EXPECT_TRUE(Await([&] { return latch->CountDown(1, "first").ok(); }));
  EXPECT_TRUE(
      Await([&] { return CodeOf(WaitFor(*NewLatch(client, 2), absl::Milliseconds(1))) == kBusy; }));
  EXPECT_TRUE(Await([&] { return NewLatch(client, 2)->CountDown(1, "second").ok(); }));
  EXPECT_TRUE(Await([&] { return NewLatch(client, 2)->Wait().ok(); }));
}

TEST_P(LatchUnreachable, ServerThatComesBackInTimeIsWaitedFor) {
  const Client client = NewClient();
  const auto latch = NewLatch(client, 4);
  EXPECT_EQ(CountOf(*latch), 4);
  for (const How how : {How::kHangs, How::kIsDown}) {
    std::optional<Outage> outage(std::in_place, server(), how);
    Crew crew;
    crew.Start([&] { EXPECT_OK(latch->CountDown()); });
    crew.Start([&] { latch->count_down(); });
    EXPECT_EQ(CodeOf(latch->Wait({.wait = absl::ZeroDuration()})), kUnreachable);
    outage.reset();
  }
  EXPECT_TRUE(Await([&] { return CountOf(*latch) == 0; }));
}

TEST_P(LatchUnreachable, ServerIsTriedForAsLongAsACallWithADeadlineMayWait) {
  const Client client =
      NewClient({.connect = ConnectPolicy::kLazy, .unreachable_after = absl::ZeroDuration()});
  const auto used = NewUsedLatch(client);
  for (const How how : {How::kHangs, How::kIsDown}) {
    const auto unused = NewLatch(client, 2, how == How::kHangs ? "hangs" : "is down");
    std::optional<Outage> outage(std::in_place, server(), how);
    Crew crew;
    for (const auto* each : {&used, &unused}) {
      crew.Start([each] { EXPECT_EQ(CodeOf((*each)->Wait({.wait = 4 * kBackoff})), kBusy); });
    }
    EXPECT_EQ(CodeOf(used->Wait({.wait = 2 * kTimeout})), kUnreachable);
    outage.reset();
  }
}

TEST_P(LatchUnreachable, ServerThatRestartsWithItsDataKeepsTheLatchAndItsWaiters) {
  const Client clients[] = {NewClient(), NewClient()};
  const auto latch = NewUsedLatch(clients[0]);
  const auto theirs = NewLatch(clients[1], 2);
  EXPECT_EQ(CountOf(*theirs), 1);
  Crew crew;
  std::atomic<int> passed{0};
  for (const auto* each : {&latch, &theirs}) {
    crew.Start(2, [&passed, each](int) {
      EXPECT_OK(PatientWait(**each));
      ++passed;
    });
  }
  ASSERT_TRUE(AwaitQueued(2));
  server().Restart();
  EXPECT_EQ(passed, 0);
  const auto counter = NewLatch(NewClient(), 2);
  EXPECT_OK(counter->CountDown(1, "somebody")) << "who has counted already";
  EXPECT_EQ(CountOf(*counter), 1);
  const base::Instant arrived = base::Now();
  counter->count_down();
  crew.Join();
  EXPECT_LT(base::Now() - arrived, absl::Seconds(3)) << "no heartbeat was waited for";
}

TEST_P(LatchUnreachable, ServerThatRestartsWithoutItsDataIsTheEndOfTheLatch) {
  UseOwnServer();
  const Client clients[] = {NewClient(), NewClient()};
  const auto latch = NewUsedLatch(clients[0]);
  const auto open = NewLatch(clients[1], 1, "open");
  open->count_down();
  Crew crew;
  crew.Start(2, [&](int) { EXPECT_EQ(CodeOf(PatientWait(*latch)), kLost); });
  ASSERT_TRUE(AwaitQueued(1));
  server().Restart();
  const base::Instant back = base::Now();
  crew.Join();
  EXPECT_LT(base::Now() - back, absl::Seconds(3)) << "who waits asks when it is connected again";
  EXPECT_EQ(CodeOf(latch->CountDown()), kLost);
  EXPECT_TRUE(Await([&] { return CodeOf(Look(*open)) == kLost; }));
}

TEST_P(LatchUnreachable, ServerThatDropsSubscriptionsWakesWaitersAsSoonAsTheyAreBack) {
  const Client clients[] = {NewClient(), NewClient()};
  const auto latch = NewUsedLatch(clients[0]);
  const auto theirs = NewLatch(clients[1], 2);
  EXPECT_EQ(CountOf(*theirs), 1);
  Crew crew;
  for (const auto* each : {&latch, &theirs}) {
    crew.Start(2, [each](int) { EXPECT_OK(PatientWait(**each)); });
  }
  ASSERT_TRUE(AwaitQueued(2));
  // In one step, so that nobody is back before the last arrives.
  const std::string incarnation = server().Text({"HGET", Key(), "incarnation"});
  const int64_t heard = CallsOf("publish");
  server().Command({"MULTI"});
  server().Command({"CLIENT", "KILL", "TYPE", "pubsub"});
  server().Command({"EVAL", std::string(lua::kLatchCountDown.body), "5", Key(), Auxiliary("queue"),
                    Auxiliary("waiters"), Auxiliary("fence"), Auxiliary("counted"),
                    absl::StrCat("latch:60000:", incarnation), "the last", "1"});
  const redis::Reply done = server().Command({"EXEC"});
  const base::Instant arrived = base::Now();
  crew.Join();
  EXPECT_LT(base::Now() - arrived, absl::Seconds(3)) << "no heartbeat was waited for";
  EXPECT_THAT(done.DebugString(), ::testing::StartsWith("[2, \"0 "));
  EXPECT_EQ(CallsOf("publish") - heard, 2) << "in vain";
}

TEST_P(LatchUnreachable, ServerThatForgetsItsScriptsIsToldThemAgain) {
  const Client clients[] = {NewClient(), NewClient()};
  const auto latch = NewUsedLatch(clients[0]);
  Crew crew;
  crew.Start([&] { EXPECT_OK(PatientWait(*latch)); });
  ASSERT_TRUE(AwaitQueued(1));
  server().Command({"SCRIPT", "FLUSH"});
  EXPECT_EQ(CountOf(*latch), 1);
  const auto theirs = NewLatch(clients[1], 2);
  server().Command({"SCRIPT", "FLUSH"});
  EXPECT_EQ(CodeOf(Look(*theirs)), kBusy);
  server().Command({"SCRIPT", "FLUSH"});
  theirs->count_down();
  crew.Join();
}

TEST_P(LatchUnreachable, ServerDoesNotKeepACallFromBeingStopped) {
  const Client client = NewClient();
  const auto latch = NewUsedLatch(client);
  const auto unused = NewLatch(client, 2, "unused");
  const Outage outage(server(), How::kHangs);
  std::stop_source stop;
  Crew crew;
  for (const auto* each : {&latch, &unused}) {
    crew.Start(
        [&, each] { EXPECT_EQ(CodeOf((*each)->Wait({.stop = stop.get_token()})), kCancelled); });
  }
  Punctuality punctuality;
  const base::Instant deadline = base::Now() + kTimeout;  // for the call that was sent already
  stop.request_stop();
  crew.Join();
  punctuality.Note(deadline);
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_P(LatchUnreachable, ServerMayBeDownWhenAProgramStarts) {
  std::optional<Outage> outage(std::in_place, server(), How::kIsDown);
  const Client client = NewClient({.connect = ConnectPolicy::kLazy});
  const auto latch = NewLatch(client, 1);
  EXPECT_EQ(CodeOf(latch->Wait({.wait = absl::Milliseconds(30)})), kUnreachable);
  Crew crew;
  crew.Start([&] { EXPECT_OK(latch->CountDown()); });
  crew.Start([&] { EXPECT_OK(PatientWait(*latch)); });
  outage.reset();
}

INSTANTIATE_FOR_LATCH_OVER_TCP(LatchUnreachable);

}  // namespace
}  // namespace redlatch::conformance
