// A latch that goes away: forgotten, deleted, lost with the server's data; and the new one that is
// in its place afterwards.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/conformance/api/recorder.h"

namespace redlatch::conformance {
namespace {

constexpr absl::Duration kShortTtl = absl::Seconds(1);

class LatchVanished : public LatchConformance {
 protected:
  void ExpectGone(CountDownLatch& latch) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(CodeOf(latch.CountDown()), kLost);
      EXPECT_EQ(CodeOf(latch.CountDown(0)), kLost);
      EXPECT_EQ(CodeOf(latch.CountDown(1, "job")), kLost);
      EXPECT_EQ(CodeOf(latch.Count()), kLost);
      EXPECT_EQ(CodeOf(latch.Wait({.wait = kPatience})), kLost);
      EXPECT_EQ(CodeOf(Look(latch)), kLost);
    }
    EXPECT_EQ(Thrown([&] { latch.count_down(); }), kLost);
    EXPECT_EQ(Thrown([&] { latch.wait(); }), kLost);
    EXPECT_EQ(Thrown([&] { (void)TryWait(latch); }), kLost);
    EXPECT_EQ(Thrown([&] { latch.arrive_and_wait(); }), kLost);
  }
  // Used, with one to go of two. Who waits sends a heartbeat each third of the ttl.
  static std::unique_ptr<CountDownLatch> NewUsedLatch(const Client& client,
                                                      LatchOptions options = {
                                                          .ttl = absl::Seconds(3)}) {
    auto latch = NewLatch(client, 2, options);
    EXPECT_OK(latch->CountDown(1, "job"));
    return latch;
  }

  const Client client_ = NewClient();
  const Client other_ = NewClient();
};

TEST_P(LatchVanished, IsToldToWhoeverHasUsedItAndNotMadeAnew) {
  for (const char* how : {"DEL", "FLUSHALL"}) {
    const auto latch = NewUsedLatch(client_);
    const auto theirs = NewUsedLatch(other_);
    how == std::string("DEL") ? server().Command({"DEL", Key()}) : server().Command({"FLUSHALL"});
    ExpectGone(*latch);
    ExpectGone(*theirs);
    EXPECT_FALSE(IsThere());
    server().Command({"FLUSHALL"});
  }
}

TEST_P(LatchVanished, IsToldWhereItWasOpenToo) {
  const auto latch = NewLatch(client_, 1);
  latch->count_down();
  EXPECT_OK(Look(*latch));
  server().Command({"FLUSHALL"});
  EXPECT_EQ(CodeOf(Look(*latch)), kLost);
  EXPECT_EQ(CodeOf(latch->CountDown(0)), kLost);
}

TEST_P(LatchVanished, IsMadeAnewByANewObjectWithWhichTheOldIsNotConfused) {
  const auto old = NewUsedLatch(client_);
  const auto theirs = NewUsedLatch(other_);
  server().Command({"FLUSHALL"});
  ExpectGone(*old);
  const auto fresh = NewLatch(client_, 2);
  EXPECT_EQ(CountOf(*fresh), 2);
  ExpectGone(*old);
  ExpectGone(*theirs);
  EXPECT_EQ(CountOf(*fresh), 2) << "nothing that the old objects did counted";
  EXPECT_OK(fresh->CountDown(1, "job"));
  EXPECT_EQ(CountOf(*NewLatch(other_, 2)), 1) << "ids are new, too";
  EXPECT_OK(fresh->CountDown());
  ExpectGone(*old);
  EXPECT_TRUE(TryWait(*fresh));
}

TEST_P(LatchVanished, MayBeMadeAnewWithAnotherCount) {
  const auto old = NewUsedLatch(client_);
  server().Command({"DEL", Key()});
  const auto fresh = NewLatch(other_, 5);
  EXPECT_EQ(CountOf(*fresh), 5);
  EXPECT_EQ(CodeOf(old->Count()), kLost);
  EXPECT_EQ(CodeOf(NewLatch(client_, 2)->Count()), kMisuse);
  EXPECT_OK(fresh->CountDown(5, "job")) << "the id of an earlier latch";
  EXPECT_TRUE(TryWait(*fresh));
}

TEST_P(LatchVanished, IsNoticedByAnObjectThatWasNotUsedYetAsAFreshLatch) {
  const auto unused = NewLatch(client_, 2);
  NewUsedLatch(other_);
  server().Command({"FLUSHALL"});
  EXPECT_EQ(CountOf(*unused), 2);
}

// At the next heartbeat at the latest.
TEST_P(LatchVanished, EndsTheWaitingForIt) {
  const auto latch = NewUsedLatch(client_);
  Crew crew;
  crew.Start(3, [&](int) { EXPECT_EQ(CodeOf(PatientWait(*latch)), kLost); });
  crew.Start([&] { EXPECT_EQ(Thrown([&] { latch->wait(); }), kLost); });
  ASSERT_TRUE(AwaitQueued(1));
  server().Command({"FLUSHALL"});
  crew.Join();
  EXPECT_EQ(server().LockKeys().size(), 0) << "nothing was made anew";
}

TEST_P(LatchVanished, AndMadeAnewLetsNobodyInWhoWaitedForTheOld) {
  const auto old = NewUsedLatch(client_);
  Crew crew;
  crew.Start([&] { EXPECT_EQ(CodeOf(PatientWait(*old)), kLost); });
  ASSERT_TRUE(AwaitQueued(1));
  server().Command({"DEL", Key()});  // its place in the queue stays
  const auto fresh = NewLatch(other_, 1);
  fresh->count_down();
  EXPECT_TRUE(TryWait(*fresh));
  crew.Join();
}

TEST_P(LatchVanished, AndMadeAnewByTheSameClientIsWaitedForApart) {
  const auto old = NewUsedLatch(client_);
  Crew lost;
  lost.Start([&] { EXPECT_EQ(CodeOf(PatientWait(*old)), kLost); });
  ASSERT_TRUE(AwaitQueued(1));
  server().Command({"FLUSHALL"});
  const auto fresh = NewLatch(client_, 1);
  EXPECT_EQ(CountOf(*fresh), 1);
  Crew crew;
  std::atomic<bool> passed{false};
  crew.Start([&] {
    EXPECT_OK(PatientWait(*fresh));
    passed = true;
  });
  lost.Join();
  ASSERT_TRUE(AwaitQueued(1));
  EXPECT_FALSE(passed);
  NewLatch(other_, 1)->count_down();
  crew.Join();
}

TEST_P(LatchVanished, IsForgottenAfterItsTtlWithoutATouch) {
  const LatchOptions options{.ttl = kShortTtl};
  const auto latch = NewUsedLatch(client_, options);
  EXPECT_GT(Pttl(Key()), 500);
  EXPECT_LE(Pttl(Key()), 1000);
  EXPECT_GT(Pttl(Auxiliary("counted")), 500);
  EXPECT_TRUE(Await([&] { return !IsThere(); }));
  ExpectGone(*latch);
  EXPECT_EQ(CountOf(*NewLatch(client_, 2, options)), 2);
}

TEST_P(LatchVanished, DoesNotHappenWhereItIsTouchedInTime) {
  const LatchOptions options{.ttl = kShortTtl};
  const auto latch = NewUsedLatch(client_, options);
  const auto theirs = NewUsedLatch(other_, options);
  const std::vector<std::function<void()>> touches = {
      [&] { EXPECT_EQ(CountOf(*latch), 1); },
      [&] { EXPECT_OK(latch->CountDown(0)); },
      [&] { EXPECT_OK(theirs->CountDown(1, "job")); },
      [&] { EXPECT_EQ(CodeOf(Look(*theirs)), kBusy); },
      [&] { EXPECT_EQ(CountOf(*NewLatch(client_, 2, options)), 1); },
      [&] { EXPECT_OK(theirs->CountDown()); },
      [&] { EXPECT_OK(Look(*latch)); },
  };
  for (size_t i = 0; i < touches.size(); ++i) {
    server().Command({"PEXPIRE", Key(), "700"});
    server().Command({"PEXPIRE", Auxiliary("counted"), "700"});
    touches[i]();
    EXPECT_GT(Pttl(Key()), 750) << i;
    EXPECT_GT(Pttl(Auxiliary("counted")), 750) << i;
  }
}

TEST_P(LatchVanished, DoesNotHappenWhileSomebodyWaits) {
  const LatchOptions options{.ttl = kShortTtl};
  const auto latch = NewUsedLatch(client_, options);
  EXPECT_EQ(CodeOf(latch->Wait({.wait = 3 * kShortTtl})), kBusy);
  EXPECT_OK(latch->CountDown());
  EXPECT_OK(latch->Wait());
}

// Who has gone on owes nothing, loses nothing, and is not heard of any more. Nor was it before: an
// observer that counts holds would wait for the end of this one.
TEST_P(LatchVanished, IsNoLossToThoseWhoHaveGoneOn) {
  const auto heard = std::make_shared<Recorder>();
  const Client client = NewClient({}, {.observer = heard});
  const auto latch = NewLatch(client, 1, {.ttl = kShortTtl});
  Crew crew;
  crew.Start(2, [&](int) { EXPECT_OK(PatientWait(*latch)); });
  ASSERT_TRUE(AwaitQueued(1));
  NewLatch(other_, 1, {.ttl = kShortTtl})->count_down();
  crew.Join();
  EXPECT_OK(latch->Wait());
  EXPECT_EQ(CodeOf(WaitFor(*NewLatch(client, 1, "other"), absl::Milliseconds(1))), kBusy);
  const int64_t requests = CallsOf("evalsha") + CallsOf("eval");
  EXPECT_TRUE(Await([&] { return !IsThere(); }));
  EXPECT_LE(CallsOf("evalsha") + CallsOf("eval"), requests + 1)
      << "whoever counted repeats it once";
  for (const char* event :
       {"acquired", "wait ended", "lost", "at risk", "renewed", "released", "misuse"}) {
    EXPECT_EQ(heard->Count(event), 0) << event;
  }
  EXPECT_EQ(CodeOf(latch->Count()), kLost);
}

TEST_P(LatchVanished, ComesADayAfterTheLastTouchWhereNothingElseIsAskedFor) {
  NewUsedLatch(client_, {});
  EXPECT_GT(Pttl(Key()), absl::ToInt64Milliseconds(absl::Hours(24) - absl::Minutes(1)));
  EXPECT_LE(Pttl(Key()), absl::ToInt64Milliseconds(absl::Hours(24)));
  NewUsedLatch(other_, {.ttl = absl::Hours(1)});
  EXPECT_GT(Pttl(Key()), absl::ToInt64Milliseconds(absl::Hours(23)))
      << "of whoever has the longest";
}

TEST_P(LatchVanished, AfterLessThanASecondIsNoOption) {
  for (const absl::Duration ttl : {absl::Milliseconds(999), absl::ZeroDuration(), -absl::Hours(1),
                                   -absl::InfiniteDuration()}) {
    const auto latch = NewLatch(client_, 2, {.ttl = ttl});
    EXPECT_EQ(CodeOf(latch->CountDown()), kBadInput) << ttl;
    EXPECT_EQ(CodeOf(latch->Wait()), kBadInput) << ttl;
    EXPECT_EQ(CodeOf(latch->Count()), kBadInput) << ttl;
    EXPECT_EQ(Thrown([&] { (void)latch->try_wait(); }), kBadInput) << ttl;
  }
  EXPECT_FALSE(IsThere());
}

INSTANTIATE_FOR_LATCH_OVER_TCP(LatchVanished);

}  // namespace
}  // namespace redlatch::conformance
