// Waiting for a latch: how long, whom it wakes and by how much talk, and what ends it.
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/support/punctuality.h"
#include "tests/support/test_scale.h"

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

TEST_P(LatchWaiting, EndsWhenItsTimeIsUpNeverEarlyAndHardlyLate) {
  Punctuality punctuality;
  Crew crew;
  for (const int wait_ms : {1, 20, 55, 90, 130}) {
    crew.Start([&, wait_ms] {
      const std::chrono::milliseconds wait(wait_ms);
      const auto expect_takes = [&](const auto& call) {
        const base::Instant deadline = base::Now() + absl::FromChrono(wait);
        call();
        EXPECT_GE(base::Now(), deadline);
        punctuality.Note(deadline);
      };
      expect_takes(
          [&] { EXPECT_EQ(CodeOf(latch_->Wait({.wait = absl::FromChrono(wait)})), kBusy); });
      expect_takes([&] { EXPECT_FALSE(latch_->wait_for(wait)); });
      expect_takes(
          [&] { EXPECT_FALSE(latch_->wait_until(std::chrono::steady_clock::now() + wait)); });
    });
  }
  crew.Join();
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_P(LatchWaiting, EndsInTimeForTheFirstCallOfAClientToo) {
  Punctuality punctuality;
  for (int i = 0; i < 3; ++i) {
    const auto latch = NewLatch(NewClient(), 2);
    const base::Instant deadline = base::Now() + absl::Milliseconds(10);
    EXPECT_EQ(CodeOf(latch->Wait({.wait = absl::Milliseconds(10)})), kBusy);
    EXPECT_GE(base::Now(), deadline);
    punctuality.Note(deadline);
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_P(LatchWaiting, IsNotDoneByThoseWhoOnlyLook) {
  const int64_t queued = CallsOf("zadd");
  Punctuality punctuality;
  base::Instant deadline = base::Now();
  EXPECT_FALSE(latch_->try_wait());
  punctuality.Note(deadline);
  deadline = base::Now();
  EXPECT_EQ(CodeOf(latch_->Wait({.wait = absl::ZeroDuration()})), kBusy);
  punctuality.Note(deadline);
  EXPECT_EQ(CodeOf(latch_->Wait({.wait = -absl::Seconds(1)})), kBusy);
  EXPECT_FALSE(latch_->wait_for(-std::chrono::hours(1)));
  EXPECT_FALSE(latch_->wait_until(std::chrono::system_clock::now() - std::chrono::hours(1)));
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_EQ(CallsOf("zadd"), queued);
}

TEST_P(LatchWaiting, LeavesNoPlaceInTheQueueWhenItEnds) {
  EXPECT_EQ(CodeOf(latch_->Wait({.wait = absl::Milliseconds(200)})), kBusy);
  EXPECT_TRUE(AwaitQueued(0));
  const int64_t published = CallsOf("publish");
  latch_->count_down();
  EXPECT_EQ(CallsOf("publish"), published);
}

TEST_P(LatchWaiting, EndsAsSoonAsTheLastHasArrived) {
  std::atomic<int64_t> ended{0};
  Crew crew;
  crew.Start([&] {
    EXPECT_OK(PatientWait(*latch_));
    ended = base::Now().nanos();
  });
  ASSERT_TRUE(AwaitQueued(1));
  const auto theirs = NewLatch(other_, 2);
  EXPECT_EQ(CountOf(*theirs), 1);
  const base::Instant arrived = base::Now();
  theirs->count_down();
  crew.Join();
  EXPECT_LT(base::Instant::FromNanos(ended) - arrived, kSoon);
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

TEST_P(LatchWaiting, EndsForEveryObjectOfTheClient) {
  std::vector<std::unique_ptr<CountDownLatch>> latches;
  Crew crew;
  for (int i = 0; i < 3; ++i) {
    latches.push_back(NewLatch(client_, 2));
    EXPECT_EQ(CountOf(*latches.back()), 1);
    crew.Start([latch = latches.back().get()] { EXPECT_OK(PatientWait(*latch)); });
  }
  ASSERT_TRUE(AwaitQueued(1));
  NewLatch(client_, 2)->count_down();
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

TEST_P(LatchWaiting, DoesNotBeginWhereItsStopTokenHasFired) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(CodeOf(latch_->Wait({.stop = stop.get_token()})), kCancelled);
  EXPECT_EQ(CodeOf(latch_->Wait({.wait = absl::Seconds(5), .stop = stop.get_token()})), kCancelled);
  EXPECT_TRUE(AwaitQueued(0));
}

TEST_P(LatchWaiting, StoppedOrOverForOneThreadGoesOnForTheOthers) {
  std::stop_source stop;
  Crew first;
  first.Start([&] { EXPECT_EQ(CodeOf(latch_->Wait({.stop = stop.get_token()})), kCancelled); });
  first.Start([&] { EXPECT_EQ(CodeOf(latch_->Wait({.wait = absl::Milliseconds(30)})), kBusy); });
  ASSERT_TRUE(AwaitQueued(1));
  std::atomic<int> inside{0}, passed{0};
  Crew crew;
  crew.Start(2, [&](int) {
    ++inside;
    EXPECT_OK(PatientWait(*latch_));
    ++passed;
  });
  EXPECT_TRUE(Await([&] { return inside == 2; }));
  stop.request_stop();
  first.Join();
  ASSERT_TRUE(AwaitQueued(1));
  EXPECT_EQ(passed, 0);
  latch_->count_down();
  crew.Join();
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

TEST_P(LatchWaiting, GoesOnInOneObjectWhereAnotherOfTheClientIsDestroyed) {
  auto doomed = NewLatch(client_, 2);
  EXPECT_EQ(CountOf(*doomed), 1);
  Crew cancelled;
  cancelled.Start([&latch = *doomed] { EXPECT_EQ(CodeOf(latch.Wait()), kCancelled); });
  ASSERT_TRUE(AwaitQueued(1));
  std::atomic<bool> passed{false};
  Crew crew;
  crew.Start([&] {
    EXPECT_OK(PatientWait(*latch_));
    passed = true;
  });
  EXPECT_FALSE(latch_->wait_for(std::chrono::milliseconds(20)));
  doomed.reset();
  cancelled.Join();
  EXPECT_EQ(CodeOf(Look(*latch_)), kBusy);
  EXPECT_FALSE(passed);
  latch_->count_down();
  crew.Join();
}

TEST_P(LatchWaiting, ForTwoLatchesAtOnceMixesNothingUp) {
  const auto second = NewLatch(client_, 1, "second");
  EXPECT_EQ(CountOf(*second), 1);
  std::atomic<bool> first_passed{false};
  Crew crew;
  crew.Start([&] {
    EXPECT_OK(PatientWait(*latch_));
    first_passed = true;
  });
  Crew other;
  other.Start([&] { EXPECT_OK(PatientWait(*second)); });
  ASSERT_TRUE(AwaitQueued(1));
  ASSERT_TRUE(AwaitQueued(1, "second"));
  NewLatch(other_, 1, "second")->count_down();
  other.Join();
  EXPECT_FALSE(first_passed);
  EXPECT_TRUE(AwaitQueued(1));
  latch_->count_down();
  crew.Join();
}

// Each round somebody begins to wait just when the last arrives: a wake-up must not fall between.
TEST_P(LatchWaiting, ThatBeginsJustWhenTheLastArrivesMissesNothing) {
  for (int i = 0; i < support::Scaled(40); ++i) {
    const std::string name = absl::StrCat("round ", i);
    const auto mine = NewLatch(client_, 1, name);
    const auto theirs = NewLatch(other_, 1, name);
    const base::Instant began = base::Now();
    Crew crew;
    crew.Start(2, [&](int) { EXPECT_OK(PatientWait(*mine)); });
    crew.Start([&] { EXPECT_OK(PatientWait(*theirs)); });
    crew.Start([&] { EXPECT_OK(theirs->CountDown()); });
    crew.Join();
    EXPECT_LT(base::Now() - began, absl::Seconds(2)) << "a heartbeat had to mend it, round " << i;
  }
}

TEST_P(LatchWaiting, StoppedAtRandomLosesNobody) {
  Crew crew;
  std::atomic<int> cancelled{0}, passed{0};
  const int rounds = support::Scaled(40);
  for (const Client* const client : {&client_, &other_}) {
    crew.Start(2, [&, client](int) {
      for (int i = 0; i < rounds; ++i) {
        const auto latch = NewLatch(*client, 1, "random");
        std::stop_source stop;
        Crew stopper;
        stopper.Start([&] { stop.request_stop(); });
        const absl::Status status = latch->Wait({.wait = kPatience, .stop = stop.get_token()});
        EXPECT_TRUE(status.ok() || status.code() == kCancelled) << status;
        ++(status.ok() ? passed : cancelled);
      }
    });
  }
  EXPECT_TRUE(Await([&] { return cancelled >= rounds; }));
  NewLatch(client_, 1, "random")->count_down();
  crew.Join();
  EXPECT_EQ(cancelled + passed, 4 * rounds);
  EXPECT_TRUE(AwaitQueued(0, "random"));
  EXPECT_TRUE(TryWait(*NewLatch(client_, 1, "random")));
}

INSTANTIATE_FOR_LATCH(LatchWaiting);

}  // namespace
}  // namespace redlatch::conformance
