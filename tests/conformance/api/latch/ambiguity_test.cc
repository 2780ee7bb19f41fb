// Replies that are lost and requests that are late: each arrival counts once, and nobody misses the
// opening.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/support/punctuality.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

using support::Direction;
using support::Scope;

constexpr char kUrlOptions[] = "command_timeout=150ms";
constexpr int64_t kTotal = 100;
// A heartbeat comes each third of it while somebody waits.
constexpr LatchOptions kOptions{.ttl = absl::Milliseconds(1500)};

class LatchAmbiguity : public LatchConformance {
 protected:
  // Behind the proxy, and used already, so that both its connections are there.
  Client NewFarClient(absl::Duration unreachable_after = kPatience) {
    Client client = ClientAt(proxy_.url(), kUrlOptions, {.unreachable_after = unreachable_after});
    WarmUp(client);
    EXPECT_TRUE(AwaitQueued(0, "warm"));  // nothing of it is on its way any more
    return client;
  }
  static void WarmUp(const Client& client) {
    CountDownLatch warm(client, "warm", 1);
    EXPECT_EQ(CodeOf(WaitFor(warm, absl::Milliseconds(20))), kBusy);
  }
  // Has been used, or is yet to make the latch.
  std::unique_ptr<CountDownLatch> NewFarLatch(bool used = true) {
    auto latch = NewLatch(NewFarClient(), kTotal, kOptions);
    EXPECT_TRUE(!used || CountOf(*latch) >= 0);
    return latch;
  }
  // The next reply is lost with its connection: the client knows at once that it will not come.
  void LoseNextReply() { proxy_.CutAfter(Direction::kToClient, 0); }
  // Requests that are sent from now on wait in the proxy, while their sender is told that its
  // connection is over; what it sends after that passes.
  void DelayRequestsOf(Crew& crew, std::function<void()> call) {
    proxy_.Hold(Direction::kToServer, Scope::kExisting);
    crew.Start(std::move(call));
    EXPECT_TRUE(
        proxy_.Await([](const support::ProxyStats& stats) { return stats.bytes_waiting > 0; }));
    proxy_.HalfClose(Direction::kToClient);
  }
  void DeliverWhatWaits() {
    proxy_.ReleaseHeld();
    EXPECT_TRUE(
        proxy_.Await([](const support::ProxyStats& stats) { return stats.bytes_waiting == 0; }));
  }

  support::TcpProxy proxy_{{.port = server().port()}};
  const Client near_ = NewClient();
  const std::unique_ptr<CountDownLatch> latch_ = NewLatch(near_, kTotal, kOptions);
};

TEST_P(LatchAmbiguity, OfACountWhoseReplyWasLostCountsOnce) {
  // Of the default ttl: nobody waits, and so nothing keeps the latch while this thread does not
  // run.
  const auto far = NewLatch(NewFarClient(), kTotal);
  const auto latch = NewLatch(near_, kTotal);
  int64_t left = kTotal;
  EXPECT_EQ(CountOf(*far), left);
  for (const bool silently : {false, true}) {
    silently ? proxy_.DropReplies(1) : LoseNextReply();
    far->count_down();
    EXPECT_EQ(CountOf(*latch), --left);
    silently ? proxy_.DropReplies(1) : LoseNextReply();
    EXPECT_OK(far->CountDown(3));
    EXPECT_EQ(CountOf(*latch), left -= 3);
    silently ? proxy_.DropReplies(1) : LoseNextReply();
    EXPECT_OK(far->CountDown(2, silently ? "job" : "other job"));
    EXPECT_EQ(CountOf(*latch), left -= 2);
  }
}

TEST_P(LatchAmbiguity, OfTheFirstUseWhoseReplyWasLostMakesOneLatch) {
  for (const bool silently : {false, true}) {
    server().Command({"DEL", Key(), Auxiliary("counted")});
    const auto far = NewFarLatch(/*used=*/false);
    silently ? proxy_.DropReplies(1) : LoseNextReply();
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
  const auto far = NewLatch(NewFarClient(absl::Milliseconds(300)), kTotal, kOptions);
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
    const auto far = NewLatch(NewFarClient(), 1, how);
    EXPECT_EQ(CountOf(*far), 1);
    how == "silently" ? proxy_.DropReplies(1) : LoseNextReply();
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
    auto far = NewLatch(NewFarClient(), 1, "hanging");
    EXPECT_TRUE(!used || CountOf(*far) == 1);
    proxy_.Hold(Direction::kToServer);
    Crew crew;
    crew.Start([&latch = *far] { EXPECT_EQ(CodeOf(latch.Wait()), kCancelled); });
    EXPECT_TRUE(
        proxy_.Await([](const support::ProxyStats& stats) { return stats.bytes_waiting > 0; }));
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
  EXPECT_TRUE(Await([&] { return !server().Command({"KEYS", "*.gone.*"}).elements.empty(); }));
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
  const Client far = NewFarClient();
  const Client fresh = ClientAt(proxy_.url(), kUrlOptions);
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
  const Client far[] = {NewFarClient(), NewFarClient()};
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
