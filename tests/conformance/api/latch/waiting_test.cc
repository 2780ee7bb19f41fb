// Waiting for a latch: how long, whom it wakes and by how much talk, and what ends it.
#include <atomic>
#include <chrono>
#include <memory>
#include <stop_token>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/support/punctuality.h"

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

TEST_P(LatchWaiting, EndsWhenItsTimeIsUpAndNotBefore) {
  Crew crew;
  for (const int wait_ms : {1, 20, 55, 90, 130}) {
    crew.Start([&, wait_ms] {
      const std::chrono::milliseconds wait(wait_ms);
      const auto expect_takes = [&](const auto& call) {
        const base::Instant deadline = base::Now() + absl::FromChrono(wait);
        call();
        EXPECT_GE(base::Now(), deadline);
      };
      expect_takes(
          [&] { EXPECT_EQ(CodeOf(latch_->Wait({.wait = absl::FromChrono(wait)})), kBusy); });
      expect_takes([&] { EXPECT_FALSE(latch_->wait_for(wait)); });
      expect_takes(
          [&] { EXPECT_FALSE(latch_->wait_until(std::chrono::steady_clock::now() + wait)); });
    });
  }
  crew.Join();
}

TEST_P(LatchWaiting, LeavesNoPlaceInTheQueueWhenItEnds) {
  EXPECT_EQ(CodeOf(latch_->Wait({.wait = absl::Milliseconds(200)})), kBusy);
  EXPECT_TRUE(AwaitQueued(0));
  const int64_t published = CallsOf("publish");
  latch_->count_down();
  EXPECT_EQ(CallsOf("publish"), published);
}

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

TEST_P(LatchWaiting, IsStoppedByItsStopToken) {
  std::stop_source stop;
  Crew crew;
  crew.Start(2,
             [&](int) { EXPECT_EQ(CodeOf(latch_->Wait({.stop = stop.get_token()})), kCancelled); });
  ASSERT_TRUE(AwaitQueued(1));
  Punctuality punctuality;
  const base::Instant stopped = base::Now();
  stop.request_stop();
  crew.Join();
  punctuality.Note(stopped);
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(AwaitQueued(0));
  EXPECT_EQ(CountOf(*latch_), 1);
}

TEST_P(LatchWaiting, EndsAsCancelledWhereItsObjectIsDestroyed) {
  auto mine = NewLatch(client_, 2);
  auto theirs = NewLatch(other_, 2);
  Crew crew;
  crew.Start([&latch = *mine] { EXPECT_EQ(CodeOf(latch.Wait()), kCancelled); });
  crew.Start([&latch = *theirs] { EXPECT_EQ(Thrown([&] { latch.wait(); }), kCancelled); });
  ASSERT_TRUE(AwaitQueued(2));
  mine.reset();
  theirs.reset();
  crew.Join();
  EXPECT_TRUE(AwaitQueued(0));
  EXPECT_EQ(CountOf(*latch_), 1);
}

INSTANTIATE_FOR_LATCH(LatchWaiting);

}  // namespace
}  // namespace redlatch::conformance
