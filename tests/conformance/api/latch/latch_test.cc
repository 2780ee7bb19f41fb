// A latch as users see it: creation, counts, waits.
#include "absl/strings/escaping.h"
#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

struct Latch : LatchConformance {
  const Client client_ = NewClient();
  const Client other_ = NewClient();
};

TEST_P(Latch, OpensAtLastCountAndStaysOpen) {
  const auto latch = NewLatch(client_, 3);
  EXPECT_FALSE(TryWait(*latch));
  latch->count_down();
  EXPECT_FALSE(TryWait(*latch));
  latch->count_down(2);
  for (int i = 0; i < 2; ++i) {
    latch->wait();
    EXPECT_TRUE(TryWait(*latch));
    EXPECT_TRUE(latch->wait_for(std::chrono::seconds(0)));
    EXPECT_TRUE(latch->wait_until(std::chrono::steady_clock::now()));
    EXPECT_OK(latch->Wait());
  }
}

TEST_P(Latch, StatusCallsReportRemainingCount) {
  const auto latch = NewLatch(client_, 5);
  EXPECT_EQ(CountOf(*latch), 5);
  EXPECT_OK(latch->CountDown());
  EXPECT_OK(latch->CountDown(3));
  EXPECT_EQ(CountOf(*latch), 1);
  EXPECT_EQ(CodeOf(latch->Wait({.wait = absl::Milliseconds(1)})), kBusy);
  EXPECT_EQ(CodeOf(Look(*latch)), kBusy);
  EXPECT_OK(latch->CountDown());
  EXPECT_EQ(CountOf(*latch), 0);
  EXPECT_OK(Look(*latch));
  EXPECT_OK(latch->Wait());
}

TEST_P(Latch, RefusesOtherCountAndNamesBoth) {
  const auto latch = NewLatch(client_, 12);
  latch->count_down();
  const auto wrong = NewLatch(other_, 13);
  for (const absl::Status& refused : {wrong->CountDown(), wrong->Wait(), Look(*wrong),
                                      wrong->Count().status(), wrong->CountDown(0)}) {
    EXPECT_EQ(refused.code(), kMisuse);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("12"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("13"));
  }
  EXPECT_EQ(Thrown([&] { wrong->count_down(); }), kMisuse);
  EXPECT_EQ(Thrown([&] { wrong->wait(); }), kMisuse);
  EXPECT_EQ(Thrown([&] { (void)wrong->try_wait(); }), kMisuse);
  EXPECT_EQ(Thrown([&] { wrong->arrive_and_wait(); }), kMisuse);
  EXPECT_EQ(CodeOf(Look(*NewLatch(client_, 11))), kMisuse) << "of the same client";
  EXPECT_EQ(CodeOf(Look(*NewLatch(other_, 0))), kMisuse);
  EXPECT_EQ(CountOf(*latch), 11);
  EXPECT_EQ(CountOf(*NewLatch(other_, 12)), 11);
}

TEST_P(Latch, RefusesCountsBeyondZeroAndNamesBoth) {
  const auto latch = NewLatch(client_, 40);
  latch->count_down(17);
  const absl::Status refused = latch->CountDown(57);
  EXPECT_EQ(refused.code(), kMisuse);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("23"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("57"));
  EXPECT_EQ(Thrown([&] { latch->count_down(24); }), kMisuse);
  EXPECT_EQ(Thrown([&] { latch->arrive_and_wait(24); }), kMisuse);
  EXPECT_EQ(CountOf(*latch), 23);
  EXPECT_EQ(CodeOf(Look(*latch)), kBusy);
  latch->count_down(23);
  EXPECT_EQ(Thrown([&] { latch->count_down(); }), kMisuse);
  latch->count_down(0);
  EXPECT_EQ(CountOf(*latch), 0);
}

TEST_P(Latch, RefusesInvalidCounts) {
  const auto latch = NewLatch(client_, 3);
  EXPECT_EQ(CodeOf(latch->CountDown(-1)), kBadInput);
  EXPECT_EQ(CodeOf(latch->CountDown(std::numeric_limits<int64_t>::min())), kBadInput);
  const absl::Status most = latch->CountDown(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(most.code(), kBadInput);
  EXPECT_THAT(std::string(most.message()), HasSubstr("9223372036854775807"));
  EXPECT_EQ(Thrown([&] { latch->count_down(-1); }), kBadInput);
  EXPECT_EQ(Thrown([&] { latch->arrive_and_wait(-1); }), kBadInput);
  EXPECT_EQ(CountOf(*latch), 3);
  const auto nameless = NewLatch(client_, 3, "");
  EXPECT_EQ(CodeOf(nameless->CountDown()), kBadInput);
  EXPECT_EQ(CodeOf(nameless->Wait()), kBadInput);
  EXPECT_EQ(CodeOf(nameless->Count()), kBadInput);
  for (const int64_t count : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    const auto bad = NewLatch(client_, count, "bad");
    EXPECT_EQ(CodeOf(bad->CountDown()), kBadInput) << count;
    EXPECT_EQ(CodeOf(bad->Wait()), kBadInput);
    EXPECT_EQ(CodeOf(bad->Count()), kBadInput);
    EXPECT_EQ(Thrown([&] { (void)bad->try_wait(); }), kBadInput);
    EXPECT_FALSE(IsThere("bad"));
  }
}

TEST_P(Latch, ArriveAndWaitForSeveralReturnsWhenOpen) {
  const auto latch = NewLatch(client_, 5);
  Crew crew;
  crew.Start([&] { latch->arrive_and_wait(4); });
  EXPECT_TRUE(AwaitQueued(1));
  EXPECT_EQ(CountOf(*latch), 1);
  NewLatch(other_, 5)->arrive_and_wait();
  crew.Join();
}

INSTANTIATE_CONFORMANCE(Latch, CasesOf("latch"));

constexpr absl::Duration kShortTtl = absl::Seconds(1);

struct DeletedLatch : Latch {
  void ExpectGone(CountDownLatch& latch) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(CodeOf(latch.CountDown()), kLost);
      EXPECT_EQ(CodeOf(latch.CountDown(0)), kLost);
      EXPECT_EQ(CodeOf(latch.CountDown(1, "job")), kLost);
      EXPECT_EQ(CodeOf(latch.Count()), kLost);
      EXPECT_EQ(CodeOf(latch.Wait({.wait = kTestTimeout})), kLost);
      EXPECT_EQ(CodeOf(Look(latch)), kLost);
    }
    EXPECT_EQ(Thrown([&] { latch.count_down(); }), kLost);
    EXPECT_EQ(Thrown([&] { latch.wait(); }), kLost);
    EXPECT_EQ(Thrown([&] { (void)TryWait(latch); }), kLost);
    EXPECT_EQ(Thrown([&] { latch.arrive_and_wait(); }), kLost);
  }
  // A used latch of two, with one count to go. Waiters send a heartbeat every third of the ttl.
  static std::unique_ptr<CountDownLatch> NewUsedLatch(const Client& client,
                                                      LatchOptions options = {
                                                          .ttl = absl::Seconds(3)}) {
    auto latch = NewLatch(client, 2, options);
    EXPECT_OK(latch->CountDown(1, "job"));
    return latch;
  }
};

TEST_P(DeletedLatch, IsLostToItsUsersAndNotRecreated) {
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

// The loss is noticed by the next heartbeat at the latest.
TEST_P(DeletedLatch, EndsWaits) {
  const auto latch = NewUsedLatch(client_);
  Crew crew;
  crew.Start(3, [&](int) { EXPECT_EQ(CodeOf(PatientWait(*latch)), kLost); });
  crew.Start([&] { EXPECT_EQ(Thrown([&] { latch->wait(); }), kLost); });
  ASSERT_TRUE(AwaitQueued(1));
  server().Command({"FLUSHALL"});
  crew.Join();
  EXPECT_EQ(server().LockKeys().size(), 0) << "nothing was created again";
}

// Waiters that returned have nothing to release or lose, so the observer is told nothing about
// them, neither before nor after. If OnAcquired() were called, an observer that counts holds would
// wait for their end.
TEST_P(DeletedLatch, ReportsNothingOnceWaitersReturned) {
  const auto recorder = std::make_shared<Recorder>();
  const Client client = NewClient({}, {.observer = recorder});
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
      << "the client that counted repeats it once";
  for (const char* event :
       {"acquired", "wait ended", "lost", "at risk", "renewed", "released", "misuse"}) {
    EXPECT_EQ(recorder->Count(event), 0) << event;
  }
  EXPECT_EQ(CodeOf(latch->Count()), kLost);
}

TEST_P(DeletedLatch, TtlUnderOneSecondIsRefused) {
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

INSTANTIATE_CONFORMANCE(DeletedLatch, OverTcp(CasesOf("latch")));

using LatchNaming = Latch;

TEST_P(LatchNaming, AcceptsAnyBytesWhoseKeysShareASlot) {
  for (const std::string& name : GoodNames(GetParam().server_group.key_prefix)) {
    SCOPED_TRACE(absl::CHexEscape(name.substr(0, 40)));
    const auto latch = NewLatch(client_, 2, name);
    EXPECT_EQ(latch->name(), name);
    ASSERT_OK(latch->CountDown());
    EXPECT_TRUE(IsThere(name));
    Crew crew;
    crew.Start([&] { EXPECT_OK(PatientWait(*NewLatch(other_, 2, name))); });
    EXPECT_TRUE(Await([&] { return server().Command({"KEYS", "*.queue"}).elements.size() == 1; }));
    EXPECT_EQ(CodeOf(latch->CountDown(7)), kMisuse);
    EXPECT_OK(latch->CountDown());
    crew.Join();
    server().Command({"FLUSHALL"});
  }
}

TEST_P(LatchNaming, LatchAndLockOnOneClientIsMisuse) {
  auto lease = Must(SimpleLock(client_, kName).Acquire());
  const auto latch = NewLatch(client_, 2);
  EXPECT_EQ(CodeOf(latch->CountDown()), kMisuse);
  EXPECT_EQ(CodeOf(Look(*latch)), kMisuse);
  EXPECT_TRUE(lease.valid());
  EXPECT_OK(lease.Release());
}

INSTANTIATE_CONFORMANCE(LatchNaming, WithoutSmoke(CasesOf("latch")));

using LatchLifetime = LatchConformance;

TEST_P(LatchLifetime, ClientLastsAsLongAsItsLatches) {
  const auto latch = NewLatch(NewClient(), 2);
  latch->count_down();
  const auto theirs = NewLatch(NewClient(), 2);
  Crew crew;
  crew.Start([&] { EXPECT_OK(PatientWait(*latch)); });
  ASSERT_TRUE(AwaitQueued(1));
  theirs->count_down();
}

INSTANTIATE_CONFORMANCE(LatchLifetime, WithoutSmoke(CasesOf("latch")));

// Waiting for a latch: its duration, its messages, and what ends it.

using redis::Punctuality;

struct LatchWaiting : LatchConformance {
  // It has counted once, so the latch exists.
  static std::unique_ptr<CountDownLatch> NewClosedLatch(const Client& client) {
    auto latch = NewLatch(client, 2);
    EXPECT_OK(latch->CountDown(1, "someone"));
    return latch;
  }

  const Client client_ = NewClient();
  const Client other_ = NewClient();
  const std::unique_ptr<CountDownLatch> latch_ = NewClosedLatch(client_);
};

TEST_P(LatchWaiting, ManyThreadsShareOneRequest) {
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

TEST_P(LatchWaiting, StopOrDestructionCancelsWait) {
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

struct LatchUnreachable : WithOutages<LatchConformance> {
  LatchUnreachable() : WithOutages({.append_only = true}) {}

  // One count of two is to go. It has waited once, so its client is subscribed.
  std::unique_ptr<CountDownLatch> NewUsedLatch(const Client& client) {
    auto latch = NewLatch(client, 2);
    EXPECT_TRUE(Await([&] { return latch->CountDown(1, "someone").ok(); }));
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

TEST_P(LatchUnreachable, ServerIsNotReportedAsClosedLatch) {
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

TEST_P(LatchUnreachable, EndlessWaitFailsAfterUnreachableAfter) {
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
