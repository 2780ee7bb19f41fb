// A latch that goes away: forgotten, deleted, lost with the server's data; and the new one that is
// in its place afterwards.
#include <memory>
#include <string>

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
