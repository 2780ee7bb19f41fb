// Waiting for a latch: how long, whom it wakes and by how much talk, and what ends it.

#include "tests/conformance/api/latch/fixture.h"
#include "tests/conformance/api/outage.h"

namespace redlatch::conformance {
namespace {

using redis::Punctuality;

class LatchWaiting : public LatchConformance {
 protected:
  // Has counted already, so that the latch is there.
  static std::unique_ptr<CountDownLatch> NewClosedLatch(const Client& client) {
    auto latch = NewLatch(client, 2);
    EXPECT_OK(latch->CountDown(1, "somebody"));
    return latch;
  }

  const Client client_ = NewClient();
  const Client other_ = NewClient();
  const std::unique_ptr<CountDownLatch> latch_ = NewClosedLatch(client_);
};

TEST_P(LatchWaiting, EndsForAllThreadsOfAllClientsByOneMessageToEach) {
  constexpr int kClients = 3;
  constexpr int kThreads = 8;
  std::vector<Client> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(NewClient());
  std::atomic<int> inside{0}, passed{0};
  std::atomic<int64_t> last{0};
  Crew crew;
  std::vector<std::unique_ptr<CountDownLatch>> latches;
  for (const Client& client : clients) {
    latches.push_back(NewLatch(client, 2));
    EXPECT_EQ(CountOf(*latches.back()), 1);
    crew.Start(kThreads, [&, latch = latches.back().get()](int) {
      ++inside;
      EXPECT_OK(PatientWait(*latch));
      ++passed;
      last = base::Now().nanos();
    });
  }
  EXPECT_TRUE(Await([&] { return inside == kClients * kThreads; }));
  ASSERT_TRUE(AwaitQueued(kClients));
  EXPECT_EQ(passed, 0);
  const int64_t published = CallsOf("publish");
  const base::Instant arrived = base::Now();
  latch_->count_down();
  crew.Join();
  EXPECT_LT(base::Instant::FromNanos(last) - arrived, kSoon);
  EXPECT_EQ(passed, kClients * kThreads);
  EXPECT_EQ(CallsOf("publish") - published, kClients);
}

TEST_P(LatchWaiting, OfManyThreadsIsOneRequest) {
  constexpr int kThreads = 16;
  std::atomic<int> inside{0};
  Crew crew;
  crew.Start([&] { EXPECT_OK(PatientWait(*latch_)); });
  ASSERT_TRUE(AwaitQueued(1));
  const int64_t requests = CallsOf("evalsha") + CallsOf("eval");
  crew.Start(kThreads, [&](int) {
    ++inside;
    EXPECT_OK(PatientWait(*latch_));
  });
  EXPECT_TRUE(Await([&] { return inside == kThreads; }));
  EXPECT_LE(CallsOf("evalsha") + CallsOf("eval") - requests, kThreads / 4) << "they join the first";
  latch_->count_down();
  crew.Join();
}

TEST_P(LatchWaiting, EndsAsCancelledWhereItIsStoppedOrItsObjectIsDestroyed) {
  auto mine = NewLatch(client_, 2);
  auto theirs = NewLatch(other_, 2);
  std::stop_source stop;
  Crew crew;
  crew.Start([&] { EXPECT_EQ(CodeOf(latch_->Wait({.stop = stop.get_token()})), kCancelled); });
  crew.Start([&latch = *mine] { EXPECT_EQ(CodeOf(latch.Wait()), kCancelled); });
  crew.Start([&latch = *theirs] { EXPECT_EQ(Thrown([&] { latch.wait(); }), kCancelled); });
  ASSERT_TRUE(AwaitQueued(2));
  stop.request_stop();
  mine.reset();
  theirs.reset();
  crew.Join();
  EXPECT_TRUE(AwaitQueued(0));
  EXPECT_EQ(CountOf(*latch_), 1);
}

INSTANTIATE_CONFORMANCE(LatchWaiting, WithoutSmoke(CasesOf("latch")));

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

INSTANTIATE_CONFORMANCE(LatchUnreachable, OverTcp(CasesOf("latch")));

}  // namespace
}  // namespace redlatch::conformance
