// Handovers by message: claims, confirmations, handover checks, and messages that do not arrive.

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct LockStateClaimsTest : LockStateTest {
  static constexpr absl::Duration kClaim = absl::Milliseconds(400);
  static constexpr absl::Duration kClaimValid = absl::Milliseconds(394);  // margin 1 % + 2 ms
  static constexpr absl::Duration kConfirmAfter = absl::Milliseconds(20);
  static constexpr absl::Duration kAskAgain = absl::Seconds(2);

  NewGrant Claim(uint32_t attempt = 1) const {
    return {.grant = kFirst, .attempt = attempt, .token = kToken, .lease = kClaim};
  }
  // A thread that got the lock by message.
  Waiter& Claimed(const Want& want = {}) {
    Waiter& waiter = Queue(want);
    DeliverGrant(Claim());
    EXPECT_EQ(waiter.state, State::kGranted);
    return waiter;
  }
  static Result With(Result result, absl::Duration check_after) {
    result.check_after = check_after;
    return result;
  }
  // The script has more to hand over.
  static Result ToGoOn(Result result, absl::Duration later = absl::ZeroDuration()) {
    result.unfinished = true;
    result.check_after = later;
    return result;
  }
  static Result Missed(Result result) {
    result.missed = true;
    return result;
  }
  // The client releases, which hands the lock to another client.
  void HandOver() {
    Waiter& holder = Hold();
    Deliver(FetchReleaseOf(holder.hold), With(ReleasedThen(), kAskAgain));
    state().Outcome(holder.hold);
  }
};

TEST_F(LockStateClaimsTest, HandoverLastsForClaimUntilConfirmed) {
  const base::Instant asked = now();
  Waiter& waiter = Claimed();
  EXPECT_EQ(state().Deadline(waiter.hold), asked + kClaimValid);
  EXPECT_EQ(state().next_request_at(), now() + kConfirmAfter);
  Pass(kConfirmAfter);
  const Request confirmation = Fetch<RenewRequest>();
  EXPECT_EQ(confirmation.lease, kLease);
  Pass(absl::Milliseconds(1));
  Deliver(confirmation, HoldRef());
  EXPECT_EQ(state().Deadline(waiter.hold), confirmation.sent + kValid);
  EXPECT_EQ(state().next_request_at(), confirmation.sent + kThird);
  EXPECT_TRUE(Notices().empty()) << "it is part of the acquisition";
}

TEST_F(LockStateClaimsTest, RepeatsConfirmationUntilClaimEnds) {
  const base::Instant asked = now();
  Waiter& waiter = Claimed();
  Pass(kConfirmAfter);
  Deliver(Fetch<RenewRequest>(), Silence());
  EXPECT_LT(state().next_request_at(), now() + absl::Milliseconds(20));
  EXPECT_TRUE(Valid(waiter));
  PassTo(asked + kClaimValid - kLead);
  Expire();
  EXPECT_FALSE(Valid(waiter));
  EXPECT_THAT(LostBecause(), ::testing::HasSubstr("was not confirmed in time"));
}

TEST_F(LockStateClaimsTest, ShortClaimIsConfirmedBeforeUse) {
  Waiter& waiter = Queue();
  Pass(kClaimValid - kClaim / 4 + absl::Milliseconds(1));
  DeliverGrant(Claim());
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_TRUE(Woken(waiter)) << "its thread must ask";
  const Request ask = Fetch<AcquireRequest>();  // at once
  Pass(absl::Milliseconds(3));
  Deliver(ask, Granted(0, kLease, kToken + 7));
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(waiter.token.value(), kToken + 7) << "of the present grant, which may be a later one";
  EXPECT_EQ(state().Deadline(waiter.hold), ask.sent + kValid);
}

TEST_F(LockStateClaimsTest, LongClaimInMessageCountsAsLease) {
  const base::Instant asked = now();
  Waiter& waiter = Queue();
  NewGrant news = Claim();
  news.lease = absl::InfiniteDuration();
  DeliverGrant(news);
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(state().Deadline(waiter.hold), asked + kValid);
  EXPECT_EQ(state().next_request_at(), now() + absl::Milliseconds(100)) << "it is confirmed soon";
}

TEST_F(LockStateClaimsTest, WholeLeaseIsAlwaysConfirmed) {
  for (const bool manual : {false, true}) {
    Make({});
    Waiter& waiter = Queue({.manual = manual, .whole = !manual});
    NewGrant news = Claim();
    news.grant = state().grant_id();
    news.lease = absl::Hours(24);
    DeliverGrant(news);
    EXPECT_EQ(waiter.state, State::kWaiting);
    Fetch<AcquireRequest>();
  }
}

TEST_F(LockStateClaimsTest, OddTokenOrAttemptMakesItAsk) {
  Waiter& before = Hold();
  EXPECT_EQ(before.token.value(), kToken);
  Deliver(FetchReleaseOf(before.hold), ReleasedThen());
  state().Forget(before.hold);
  for (const auto& [attempt, token] : {std::pair<uint32_t, uint64_t>{1, 0},
                                       {1, kToken - 1},
                                       {0, kToken + 1},
                                       {2, kToken + 1},
                                       {UINT32_MAX, kToken + 1}}) {
    Waiter& waiter = Queue();
    DeliverGrant(
        {.grant = state().grant_id(), .attempt = attempt, .token = token, .lease = kClaim});
    EXPECT_EQ(waiter.state, State::kWaiting) << attempt << " " << token;
    Deliver(Fetch<AcquireRequest>(), Queued());
    GiveUp(waiter);
    Deliver(Fetch<CancelRequest>(), Cancelled());
  }
}

// Other clients may have read the id in a message, and can then forge a grant.
TEST_F(LockStateClaimsTest, GrantIsConfirmedIfItsIdWasPublished) {
  const auto told = [&](const std::function<void(Effects&)>& event) {
    Make({});
    Waiter& waiter = Queue({.cache_for = absl::Seconds(1)});
    Effects effects;
    event(effects);
    DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kClaim});
    EXPECT_EQ(waiter.state, State::kWaiting);
    Deliver(Fetch<AcquireRequest>(), Queued());
    EXPECT_EQ(waiter.state, State::kWaiting);
  };
  told([&](Effects& effects) { state().OnAskAgain(state().grant_id(), effects); });
  told([&](Effects&) { state().OnForced(state().grant_id(), now()); });
  told([&](Effects&) { Recall(state().grant_id()); });
  told([&](Effects&) { state().OnReconnected(now()); });
  told([&](Effects&) {  // a grant that came too late
    DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken});
    Deliver(Fetch<AcquireRequest>(), Queued());
  });
  told([&](Effects&) {  // a grant that did not arrive
    Deliver(FetchDue<AcquireRequest>(), Missed(Queued()));
  });
}

TEST_F(LockStateClaimsTest, ManualHoldGetsWholeLeaseBeforeUse) {
  Waiter& waiter = Queue({.manual = true});
  DeliverGrant(Claim());
  EXPECT_EQ(waiter.state, State::kWaiting);
  const Request ask = Fetch<AcquireRequest>();
  EXPECT_FALSE(AcquireOf(ask).terms.manual) << "a repeat of a manual one would not extend it";
  Deliver(ask, Granted());
  ASSERT_EQ(waiter.state, State::kGranted);
  EXPECT_EQ(state().Deadline(waiter.hold), ask.sent + kValid);
  EXPECT_TRUE(state().next_request_at().is_infinite()) << "from here on it is manual";
}

TEST_F(LockStateClaimsTest, RestOfManualClaimIsNotItsLease) {
  Waiter& waiter = Queue({.manual = true});
  Deliver(FetchDue<AcquireRequest>(), Granted(0, kClaim));  // the message is lost
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_FALSE(AcquireOf(Fetch<AcquireRequest>()).terms.manual);
}

TEST_F(LockStateClaimsTest, ChecksHandoverAfterRelease) {
  HandOver();
  EXPECT_FALSE(state().idle());
  EXPECT_TRUE(state().vacant());
  EXPECT_EQ(state().next_request_at(), now() + kAskAgain + absl::Milliseconds(5));
  const Request check_after = FetchDue<CancelRequest>();
  EXPECT_FALSE(check_after.leaves_tombstone());
  EXPECT_NE(check_after.grant, kFirst) << "a grant that no client has";
  Deliver(check_after, With(Cancelled(), kAskAgain));  // it passed the lock on
  Deliver(FetchDue<CancelRequest>(), Cancelled());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateClaimsTest, RepeatsUnansweredHandoverCheckAFewTimes) {
  HandOver();
  int ask_again = 0;
  for (; !state().idle() && ask_again < 100; ++ask_again) {
    Deliver(FetchDue<CancelRequest>(), Silence());
  }
  EXPECT_EQ(ask_again, 4);
}

TEST_F(LockStateClaimsTest, HeartbeatReplacesOnlyTheCheckThatIsDue) {
  Answered(With(Queued(/*position=*/20), kAskAgain));
  const base::Instant first = now() + kAskAgain + absl::Milliseconds(5);
  Pass(absl::Milliseconds(500));
  state().OnReconnected(now());
  Deliver(Fetch<AcquireRequest>(), With(Queued(/*position=*/20), kAskAgain));
  const base::Instant second = now() + kAskAgain + absl::Milliseconds(5);
  Deliver(FetchDue<AcquireRequest>(), Queued(/*position=*/20));
  PassTo(first);
  state().OnReconnected(now());
  Deliver(Fetch<AcquireRequest>(), Queued(/*position=*/20));
  EXPECT_EQ(state().next_request_at(), second);
}

TEST_F(LockStateClaimsTest, ContinuesAtOnceAfterWindowOfDeadWaiters) {
  Waiter& holder = Hold();
  Deliver(FetchReleaseOf(holder.hold), ToGoOn(ReleasedThen()));
  Deliver(Fetch<CancelRequest>(), ToGoOn(Cancelled()));
  Deliver(Fetch<CancelRequest>(), Cancelled());
  EXPECT_TRUE(Quiet());

  Answered(ToGoOn(Busy()), {.wait_limit = WaitLimit::kNone});
  Fetch<CancelRequest>();
}

struct LockStatePermitClaimsTest : LockStateClaimsTest {
  LockStatePermitClaimsTest() { Make({.use = GrantUse::kPermit}); }
};

TEST_F(LockStatePermitClaimsTest, ChecksHandoversOfUnfinishedScript) {
  Waiter& holder = Hold();
  Deliver(FetchReleaseOf(holder.hold), ToGoOn(ReleasedThen(), kAskAgain));
  state().Outcome(holder.hold);
  const base::Instant due = now() + kAskAgain + absl::Milliseconds(5);
  for (int i = 0; i < 3; ++i) {
    Pass(absl::Milliseconds(1));
    Deliver(Fetch<CancelRequest>(), i < 2 ? ToGoOn(Cancelled()) : Cancelled());
  }
  EXPECT_EQ(state().next_request_at(), due);
  PassTo(due);
  Deliver(Fetch<CancelRequest>(), Cancelled());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStatePermitClaimsTest, HeartbeatDoesNotReplaceCheck) {
  Answered(ToGoOn(Queued(), absl::Milliseconds(500)));
  const base::Instant due = now() + absl::Milliseconds(505);
  Deliver(Fetch<AcquireRequest>(), Queued());
  EXPECT_EQ(state().next_request_at(), due);
  PassTo(due);
  Fetch<CancelRequest>();
}

TEST_F(LockStateClaimsTest, QueuesLastAfterMissUntilMessageArrives) {
  Queue();
  Deliver(FetchDue<AcquireRequest>(), Missed(Queued()));
  const Request again = FetchDue<AcquireRequest>();
  EXPECT_EQ(AcquireOf(again).ticket, 0U) << "the place that the server still knows, else the last";
  Deliver(again, Queued());
  DeliverGrant(Claim(AcquireOf(again).attempt));
  Waiter& next = Acquire({.thread = 2});
  Release(1);
  EXPECT_EQ(next.state, State::kWaiting);
}

TEST_F(LockStateClaimsTest, AsksAtOnceAtItsPlaceWhenToldToAskAgain) {
  Waiter& waiter = Queue();
  Deliver(FetchDue<AcquireRequest>(), Missed(Queued()));
  LockState::Park(waiter);
  Effects effects;
  state().OnAskAgain(kFirst, effects);
  ASSERT_EQ(effects.wakes.size(), 1U);
  EXPECT_EQ(effects.wakes[0], &waiter);
  state().OnWoken(waiter, now(), effects);
  const Request next = Fetch<AcquireRequest>();
  EXPECT_EQ(AcquireOf(next).ticket, 77U);
}

TEST_F(LockStateClaimsTest, PollsIfServerHasNoSubscriptionForIt) {
  Acquire();
  Result unsubscribed = Queued();
  unsubscribed.unsubscribed = true;
  for (int i = 0; i < 10; ++i) {
    Deliver(Fetch<AcquireRequest>(), unsubscribed);
    const absl::Duration poll = state().next_request_at() - now();
    EXPECT_GE(poll, absl::Milliseconds(50));
    EXPECT_LE(poll, absl::Milliseconds(i == 0 ? 100 : 500));
    Pass(poll);
  }
  Deliver(Fetch<AcquireRequest>(), Queued());
  EXPECT_GE(state().next_request_at() - now(), absl::Seconds(1));
}

TEST_F(LockStateClaimsTest, LaterAttemptsAskIfMessagesArrive) {
  const Request first = Asked().second;
  EXPECT_FALSE(AcquireOf(first).listen);
  Deliver(first, Queued());
  EXPECT_TRUE(AcquireOf(FetchDue<AcquireRequest>()).listen);
}

// The server is stopped, and executes the request when it continues, however much later.
TEST_F(LockStateClaimsTest, CancelsAbandonedRequestHoweverLate) {
  Waiter& waiter = Answered(Silence());
  GiveUp(waiter, State::kStopped);
  const base::Instant late = now() + absl::Minutes(2);
  int tries = 0;
  while (now() < late) {
    Deliver(FetchDue<CancelRequest>(), Silence());
    ASSERT_LT(++tries, 1000);
  }
  const Request cancel = FetchDue<CancelRequest>();
  EXPECT_TRUE(cancel.leaves_tombstone());
  Deliver(cancel, Cancelled());
  EXPECT_TRUE(state().idle());
}

}  // namespace
}  // namespace redlatch::internal
