// Replies that are lost and requests that are late: each arrival counts once, and nobody misses the
// opening.
#include <atomic>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/conformance/api/behind_proxy.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/support/punctuality.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

constexpr int64_t kTotal = 100;
// A heartbeat comes each third of it while somebody waits.
constexpr LatchOptions kOptions{.ttl = absl::Milliseconds(1500)};

class LatchAmbiguity : public BehindProxy<LatchConformance> {
 protected:
  // Used already, so that both its connections are there.
  Client NewUsedClient(absl::Duration unreachable_after = kPatience) {
    Client client = NewFarClient({.unreachable_after = unreachable_after});
    CountDownLatch warm(client, "warm", 1);
    EXPECT_EQ(CodeOf(WaitFor(warm, absl::Milliseconds(20))), kBusy);
    EXPECT_TRUE(AwaitQueued(0, "warm"));  // nothing of it is on its way any more
    return client;
  }
  // Has been used, or is yet to make the latch.
  std::unique_ptr<CountDownLatch> NewFarLatch(bool used = true) {
    auto latch = NewLatch(NewUsedClient(), kTotal, kOptions);
    EXPECT_TRUE(!used || CountOf(*latch) >= 0);
    return latch;
  }

  const std::unique_ptr<CountDownLatch> latch_ = NewLatch(near_, kTotal, kOptions);
};

TEST_P(LatchAmbiguity, OfACountWhoseReplyWasLostCountsOnce) {
  // Of the default ttl: nobody waits, and so nothing keeps the latch while this thread does not
  // run.
  const auto far = NewLatch(NewUsedClient(), kTotal);
  const auto latch = NewLatch(near_, kTotal);
  int64_t left = kTotal;
  EXPECT_EQ(CountOf(*far), left);
  for (const bool silently : {false, true}) {
    LoseNextReply(silently);
    far->count_down();
    EXPECT_EQ(CountOf(*latch), --left);
    LoseNextReply(silently);
    EXPECT_OK(far->CountDown(3));
    EXPECT_EQ(CountOf(*latch), left -= 3);
    LoseNextReply(silently);
    EXPECT_OK(far->CountDown(2, silently ? "job" : "other job"));
    EXPECT_EQ(CountOf(*latch), left -= 2);
  }
}

TEST_P(LatchAmbiguity, OfTheFirstUseWhoseReplyWasLostMakesOneLatch) {
  for (const bool silently : {false, true}) {
    server().Command({"DEL", Key(), Auxiliary("counted")});
    const auto far = NewFarLatch(/*used=*/false);
    LoseNextReply(silently);
    far->count_down();
    EXPECT_EQ(StoredCount(), kTotal - 1);
    EXPECT_EQ(CountOf(*far), kTotal - 1);
    EXPECT_EQ(CountOf(*NewLatch(near_, kTotal, kOptions)), kTotal - 1);
  }
}

TEST_P(LatchAmbiguity, OfAFirstUseThatArrivesWhenItsLatchHasVanishedDoesNotBringThatBack) {
  const auto far = NewFarLatch(/*used=*/false);
  Crew crew;
  DelayRequestsOf(crew, [&] { EXPECT_OK(far->CountDown(7)); });  // made by its second attempt
  crew.Join();
  server().Command({"DEL", Key(), Auxiliary("counted")});
  DeliverWhatWaits();
  EXPECT_TRUE(Await([&] { return IsThere(); })) << "the first attempt has made another";
  EXPECT_EQ(CodeOf(far->CountDown(7)), kLost);
  EXPECT_EQ(CountOf(*latch_), kTotal);
}

// Only what was refused for good is known not to have counted.
TEST_P(LatchAmbiguity, OfACountThatGaveUpIsMendedByTheSameId) {
  const auto far = NewLatch(NewUsedClient(absl::Milliseconds(300)), kTotal, kOptions);
  EXPECT_OK(far->CountDown(0));  // the server knows the script from here on
  proxy_.Drop(Direction::kToClient);
  EXPECT_EQ(CodeOf(far->CountDown(5, "job")), kUnreachable);
  EXPECT_EQ(CountOf(*latch_), kTotal - 5) << "it was executed";
  proxy_.Heal();
  absl::Status again;
  EXPECT_TRUE(Await([&] {
    again = far->CountDown(5, "job");
    return again.code() != kUnreachable;
  }));
  EXPECT_OK(again);
  EXPECT_EQ(CountOf(*latch_), kTotal - 5);
}

TEST_P(LatchAmbiguity, OfARequestThatArrivesAfterItsRepeatCountsOnce) {
  const auto far = NewFarLatch();
  Crew crew;
  DelayRequestsOf(crew, [&] { EXPECT_OK(far->CountDown(7)); });  // by its second attempt
  crew.Join();
  EXPECT_EQ(CountOf(*latch_), kTotal - 7);
  DeliverWhatWaits();
  EXPECT_OK(far->CountDown());
  EXPECT_EQ(CountOf(*latch_), kTotal - 8);
}

TEST_P(LatchAmbiguity, OfTheLastCountOpensItAndSaysSo) {
  const auto far = NewFarLatch();
  EXPECT_OK(latch_->CountDown(kTotal - 1));
  Crew crew;
  crew.Start([&] { EXPECT_OK(PatientWait(*latch_)); });
  ASSERT_TRUE(AwaitQueued(1));
  LoseNextReply();
  EXPECT_OK(far->CountDown()) << "the repeat finds nothing to go, and is no refusal";
  crew.Join();
  EXPECT_OK(Look(*far));
}

TEST_P(LatchAmbiguity, OfAWaitWhoseReplyWasLostIsMended) {
  for (const std::string how : {"at once", "silently"}) {
    const auto far = NewLatch(NewUsedClient(), 1, how);
    EXPECT_EQ(CountOf(*far), 1);
    LoseNextReply(how == "silently");
    Crew crew;
    std::atomic<bool> passed{false};
    crew.Start([&] {
      EXPECT_OK(PatientWait(*far));
      passed = true;
    });
    ASSERT_TRUE(AwaitQueued(1, how));
    EXPECT_FALSE(passed);
    NewLatch(near_, 1, how)->count_down();
  }
}

TEST_P(LatchAmbiguity, OfAWaitThatHasNoAnswerEndsWithItsObject) {
  for (const bool used : {true, false}) {  // else it hangs in making the latch
    auto far = NewLatch(NewUsedClient(), 1, "hanging");
    EXPECT_TRUE(!used || CountOf(*far) == 1);
    proxy_.Hold(Direction::kToServer);
    Crew crew;
    crew.Start([&latch = *far] { EXPECT_EQ(CodeOf(latch.Wait()), kCancelled); });
    EXPECT_TRUE(AwaitHeldBack());
    const base::Instant destroyed = base::Now();
    far.reset();
    crew.Join();
    EXPECT_LT(base::Now() - destroyed, absl::Seconds(2)) << used;
    proxy_.Heal();
  }
}

TEST_P(LatchAmbiguity, OfAnOpeningWhoseMessageWasLostIsMendedByTheHeartbeat) {
  const auto far = NewFarLatch();
  Crew crew;
  crew.Start([&] { EXPECT_OK(PatientWait(*far)); });
  ASSERT_TRUE(AwaitQueued(1));
  proxy_.Drop(Direction::kToClient, Scope::kExisting);
  EXPECT_OK(latch_->CountDown(kTotal));
  EXPECT_TRUE(AwaitQueued(0));  // it was told
  proxy_.Heal();
  crew.Join();
}

TEST_P(LatchAmbiguity, OfAWaitThatArrivesAfterItsEndQueuesNothing) {
  const auto far = NewFarLatch();
  Crew crew;
  DelayRequestsOf(crew,
                  [&] { EXPECT_EQ(CodeOf(far->Wait({.wait = absl::Milliseconds(300)})), kBusy); });
  crew.Join();
  EXPECT_TRUE(AwaitTombstone());
  EXPECT_TRUE(AwaitQueued(0));
  DeliverWhatWaits();
  EXPECT_EQ(CountOf(*far), kTotal);
  EXPECT_EQ(server().Integer({"EXISTS", Auxiliary("queue")}), 0);
}

TEST_P(LatchAmbiguity, OfALookWhoseReplyWasLostIsNoAnswer) {
  const auto far = NewFarLatch();
  proxy_.Drop(Direction::kToClient);
  EXPECT_EQ(CodeOf(far->Wait({.wait = absl::ZeroDuration()})), kUnreachable) << "not: closed";
  EXPECT_EQ(Thrown([&] { (void)far->try_wait(); }), kUnreachable);
  proxy_.Heal();
  EXPECT_TRUE(Await([&] { return CodeOf(Look(*far)) == kBusy; }));
}

// The first use of an object makes the latch before it waits, and both take their time.
TEST_P(LatchAmbiguity, OfASlowServerMakesNoWaitLate) {
  const Client far = NewUsedClient();
  const Client fresh = NewFarClient();
  proxy_.Delay(Direction::kToClient, absl::Milliseconds(30));
  redis::Punctuality punctuality;
  for (const Client& client : {far, fresh}) {
    for (const int wait_ms : {0, 1, 30, 70, 150}) {
      const auto latch = NewLatch(client, 2, absl::StrCat("slow ", wait_ms));
      for (int use = 0; use < 2; ++use) {
        // One that does not wait gives the server the time of a command.
        const base::Instant deadline =
            base::Now() + absl::Milliseconds(wait_ms > 0 ? wait_ms : 150);
        const absl::Status status = latch->Wait({.wait = absl::Milliseconds(wait_ms)});
        punctuality.Note(deadline);
        EXPECT_TRUE(status.code() == kBusy || status.code() == kUnreachable) << status;
      }
    }
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_P(LatchAmbiguity, OfEveryReplyAtRandomCountsEachArrivalOnce) {
  constexpr int kThreads = 4;
  const int each = support::Scaled(200);
  const int64_t total = int64_t{kThreads} * each + 1;
  const Client far[] = {NewUsedClient(), NewUsedClient()};
  const auto all = NewLatch(near_, total, "random");
  EXPECT_EQ(CountOf(*all), total);
  Crew waiters;
  waiters.Start([&] { EXPECT_OK(PatientWait(*NewLatch(far[0], total, "random"))); });
  std::atomic<int> at_work{kThreads};
  Crew crew;
  crew.Start(kThreads, [&](int i) {
    const auto mine = NewLatch(far[i % 2], total, "random");
    for (int j = 0; j < each; ++j) {
      EXPECT_OK(j % 2 == 0 ? mine->CountDown() : mine->CountDown(1, absl::StrCat(i, " ", j)));
    }
    --at_work;
  });
  int64_t before = total + 1;
  while (at_work > 0) {
    EXPECT_TRUE(Await([&] { return StoredCount("random") < before - 5 || at_work == 0; }));
    before = StoredCount("random");
    LoseNextReply();
  }
  crew.Join();
  EXPECT_EQ(CountOf(*all), 1);
  EXPECT_OK(all->CountDown());
  waiters.Join();
}

INSTANTIATE_FOR_LATCH_OVER_TCP(LatchAmbiguity);

}  // namespace
}  // namespace redlatch::conformance
