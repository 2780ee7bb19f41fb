// A server that hangs, goes, comes back, or forgets its scripts, while it keeps a latch.
#include <memory>
#include <optional>

#include "gtest/gtest.h"
#include "lua/scripts.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/conformance/api/outage.h"
#include "tests/support/punctuality.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

constexpr absl::Duration kGiveUp = absl::Milliseconds(300);

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
