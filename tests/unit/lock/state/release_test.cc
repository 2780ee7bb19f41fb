// Pending cleanups: releases and cancels, repeated until they are answered.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct LockStateReleaseTest : LockStateTest {
  // The server stays silent until the client gives up. Returns how often it was asked.
  int AskInVain(bool may_have_executed = true) {
    int tries = 0;
    while (!state().next_request_at().is_infinite()) {
      PassTo(state().next_request_at());
      const std::optional<Request> request = Next();
      if (!request) break;
      ++tries;
      Deliver(*request, Silence(may_have_executed));
    }
    return tries;
  }
};

TEST_F(LockStateReleaseTest, ConfirmedReleaseIsDone) {
  Waiter& waiter = Hold();
  const Released released = Release(waiter.hold);
  EXPECT_EQ(released.kind, Kind::kUnconfirmed);
  EXPECT_EQ(released.token.value(), kToken);
  EXPECT_FALSE(Valid(waiter));
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_FALSE(release.leaves_tombstone());
  EXPECT_EQ(release.acquire(), nullptr);
  Deliver(release, ReleasedThen());
  const Released outcome = state().Outcome(waiter.hold);
  EXPECT_EQ(outcome.kind, Kind::kDone);
  EXPECT_EQ(outcome.token.value(), kToken);
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateReleaseTest, RepeatFindsFirstReleaseExecutedInTime) {
  Waiter& waiter = Hold();
  Deliver(FetchReleaseOf(waiter.hold), Silence());
  const Released outcome = state().Outcome(waiter.hold);
  EXPECT_EQ(outcome.kind, Kind::kUnconfirmed);
  EXPECT_TRUE(absl::IsUnavailable(outcome.failure));
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kUnconfirmed);
  Deliver(Fetch<ReleaseRequest>(), NotHeld());  // at once, not after the back-off
  EXPECT_EQ(state().Outcome(waiter.hold).kind, Kind::kDone);
}

TEST_F(LockStateReleaseTest, RepeatAnsweredAfterDeadlineIsLost) {
  Waiter& waiter = Hold();
  const base::Instant deadline = state().Deadline(waiter.hold);
  Deliver(FetchReleaseOf(waiter.hold), Silence());
  const Request again = FetchDue<ReleaseRequest>();
  PassTo(deadline);
  Deliver(again, NotHeld());
  EXPECT_EQ(state().Outcome(waiter.hold).kind, Kind::kLost);
}

TEST_F(LockStateReleaseTest, RefusedReleaseSaysWhy) {
  Waiter& waiter = Hold();
  Deliver(FetchReleaseOf(waiter.hold), Refusal(absl::PermissionDeniedError("NOPERM")));
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(state().releasing(), 0U);
  EXPECT_FALSE(state().releases(now()));
  EXPECT_FALSE(state().reusable()) << "its caller may ask";
  const Released outcome = state().Outcome(waiter.hold);
  EXPECT_EQ(outcome.kind, Kind::kRefused);
  EXPECT_TRUE(absl::IsPermissionDenied(outcome.failure));
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateReleaseTest, RepeatsUnsentCancelForAnyReason) {
  Waiter& waiter = Queue();
  GiveUp(waiter);
  Deliver(Fetch<CancelRequest>(), NotSent(absl::PermissionDeniedError("NOAUTH")));
  Deliver(FetchDue<CancelRequest>(), Cancelled());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateReleaseTest, RepeatsReleaseUntilLeaseIsOver) {
  Waiter& waiter = Hold();
  const base::Instant over = now() + kLease;
  Release(waiter.hold);
  EXPECT_THAT(AskInVain(), AllOf(::testing::Ge(6), ::testing::Le(30)));
  EXPECT_EQ(now(), over);
  EXPECT_EQ(state().Outcome(waiter.hold).kind, Kind::kLost);
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateReleaseTest, TryIsNotRefusedByOwnOvertakenRelease) {
  Release(Hold().hold);
  for (int i = 0; i < 4; ++i) {  // its next repeat is far away
    Deliver(FetchDue<ReleaseRequest>(), Silence());
  }
  ASSERT_GT(state().next_request_at(), now() + absl::Milliseconds(10));
  Waiter& waiter = Answered(Busy(), {.wait_limit = WaitLimit::kNone});
  EXPECT_EQ(waiter.state, State::kWaiting);
  const Request again = Fetch<ReleaseRequest>();  // at once, since the server answers
  const Request behind = FetchDue<AcquireRequest>();
  Deliver(again, ReleasedThen());
  Deliver(behind, Busy());
  EXPECT_EQ(waiter.state, State::kBusy) << "another client has it";
}

// The server is out of memory, for example.
TEST_F(LockStateReleaseTest, TryDoesNotHurryReleaseThatServerRefuses) {
  Release(Hold().hold);
  for (int i = 0; i < 4; ++i) {
    Deliver(FetchDue<ReleaseRequest>(), Refusal(absl::UnavailableError("MISCONF")));
  }
  Waiter& waiter = Answered(Busy(), {.wait_limit = WaitLimit::kNone});
  EXPECT_EQ(waiter.state, State::kBusy);
  EXPECT_GT(state().next_request_at(), now() + absl::Milliseconds(10));
}

TEST_F(LockStateReleaseTest, ReleaseCrossesRenewal) {
  Waiter& waiter = Hold();
  const Request renewal = FetchDue<RenewRequest>();
  EXPECT_TRUE(state().IsWanted(renewal));
  Release(waiter.hold);
  EXPECT_FALSE(state().IsWanted(renewal));
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_TRUE(Quiet());
  Deliver(release, ReleasedThen());
  Deliver(renewal, HoldRef());
  EXPECT_TRUE(effects().notices.empty());
  EXPECT_FALSE(Valid(waiter));
  Pass(kLease);
  EXPECT_TRUE(Quiet()) << "no renewal after a release";
  state().Forget(waiter.hold);
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateReleaseTest, NextAcquireTravelsWithReleaseOnce) {
  auto [holder, other] = Contended({.turn = absl::ZeroDuration()}, {.thread = 2});
  const Request release = FetchReleaseOf(holder->hold);
  EXPECT_NE(release.acquire(), nullptr);
  EXPECT_EQ(AcquireOf(release).attempt, 1U);
  EXPECT_TRUE(state().IsWanted(release));
  EXPECT_TRUE(Quiet());
  Deliver(release, Silence());
  EXPECT_EQ(other->state, State::kWaiting);
  PassTo(state().next_request_at());
  std::vector<Request> sends;
  for (int i = 0; i < 100 && sends.size() < 2; ++i) {
    if (std::optional<Request> request = Next()) sends.push_back(*request);
    Pass(absl::Milliseconds(1));
  }
  ASSERT_EQ(sends.size(), 2U);
  if (!std::holds_alternative<ReleaseRequest>(sends[0].what)) std::swap(sends[0], sends[1]);
  EXPECT_EQ(sends[0].acquire(), nullptr);
  EXPECT_TRUE(std::holds_alternative<AcquireRequest>(sends[1].what));
  EXPECT_EQ(AcquireOf(sends[1]).grant, AcquireOf(release).grant);
  EXPECT_EQ(AcquireOf(sends[1]).attempt, 2U);
  Deliver(sends[1], Granted());
  EXPECT_EQ(other->state, State::kGranted);
}

TEST_F(LockStateReleaseTest, AcquireFollowsReleaseOfSeveralNames) {
  Make({.several = true});
  auto [holder, other] = Contended({.turn = absl::ZeroDuration()}, {.thread = 2});
  const Request release = FetchReleaseOf(holder->hold);
  EXPECT_EQ(release.acquire(), nullptr);
  const Request acquire = Fetch<AcquireRequest>();  // it does not wait for the reply to the release
  EXPECT_EQ(AcquireOf(acquire).attempt, 1U);
  EXPECT_TRUE(Quiet());
  Deliver(release, ReleasedThen());
  Deliver(acquire, Granted());
  EXPECT_EQ(other->state, State::kGranted);
}

TEST_F(LockStateReleaseTest, RepeatOmitsAcquireThatIsNoLongerWanted) {
  auto [holder, other] = Contended({.turn = absl::ZeroDuration()}, {.thread = 2});
  const Request release = FetchReleaseOf(holder->hold);
  GiveUp(*other);
  EXPECT_TRUE(state().IsWanted(release)) << "the tombstone refuses its acquire";
  const Request cancel = Fetch<CancelRequest>();
  EXPECT_EQ(cancel.grant, AcquireOf(release).grant);
  EXPECT_TRUE(cancel.leaves_tombstone());
  Deliver(release, Silence(/*may_have_executed=*/false));
  Deliver(cancel, Cancelled());
  EXPECT_EQ(FetchDue<ReleaseRequest>().acquire(), nullptr);
}

TEST_F(LockStateReleaseTest, RepeatsCleanupsAtOnceAfterReconnect) {
  Waiter& waiter = Hold();
  Deliver(FetchReleaseOf(waiter.hold), Silence());
  Deliver(Fetch<ReleaseRequest>(), Silence());  // repeated once at once, on a new connection
  EXPECT_TRUE(Quiet());
  state().OnReconnected(now());
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
}

TEST_F(LockStateReleaseTest, LeaseSurvivesReleaseOfHoldsByLock) {
  Make({.reentrant = true});
  Waiter& lease = Hold();
  for (int i = 0; i < 3; ++i) Acquire({.face = Face::kStd});
  EXPECT_TRUE(state().UnlockInner(1));
  ReleaseStd();
  EXPECT_TRUE(Valid(lease));
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(state().OfThread(1).depth, 1U);
  EXPECT_EQ(Release(lease.hold).kind, Kind::kUnconfirmed);
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  EXPECT_EQ(Release(lease.hold).kind, Kind::kDone);
}

TEST_F(LockStateReleaseTest, LossIsForgottenIfThreadCannotUnlock) {
  Hold({.face = Face::kStd});
  Pass(kLease);
  Expire();
  EXPECT_NE(state().OfThread(1).hold, 0U);
  ReleaseStd();
  EXPECT_EQ(state().OfThread(1).hold, 0U);
  EXPECT_EQ(Unlock(1).kind, Kind::kNotHeld);
}

TEST_F(LockStateReleaseTest, OptionsOutliveEventThatEndsHold) {
  std::weak_ptr<const LockOptions> options;
  Waiter& waiter = Hold();
  options = waiter.options;
  waiter.options.reset();
  Release(waiter.hold);
  EXPECT_FALSE(options.expired()) << "a user's destructor would run under the entry's mutex";
}

// When the repeats end, nothing may be left at the server.
TEST_F(LockStateReleaseTest, LastsAsLongAsServerMayHaveTheGrant) {
  struct Case {
    const char* what;
    Want want;
    std::function<void(Waiter&)> events;  // the time counts from the last of them
    absl::Duration more = kLease;
  };
  const Want manual = {.lease = 2 * kLease, .manual = true};
  Request renewal;
  for (const Case& each : std::vector<Case>{
           {"a renewal is in flight", {}, [&](Waiter& it) { Release(it.hold); }},
           {"it is answered after the release",
            {},
            [&](Waiter& it) {
              Release(it.hold);
              Pass(kThird);
              Deliver(renewal, HoldRef());
            }},
           {"it goes unanswered after the release",
            {},
            [&](Waiter& it) {
              Release(it.hold);
              Pass(kThird);
              Deliver(renewal, Silence());
            }},
           {"it went unanswered", {}, [&](Waiter&) { Deliver(renewal, Silence()); }},
           {"it was answered late", {}, [&](Waiter&) { Deliver(renewal, HoldRef()); }},
           {"a hold without renewals is checked", manual,
            [&](Waiter& it) {
              Release(it.hold);
              Deliver(renewal, HoldRef());
            },
            2 * kLease}}) {
    SCOPED_TRACE(each.what);
    Make({});
    Waiter& waiter = Hold(each.want);
    if (each.want.manual) {
      Pass(kThird);
      state().OnForced(state().grant_id(), now());
      renewal = Fetch<RenewRequest>();
    } else {
      renewal = FetchDue<RenewRequest>();
      Pass(kThird);
    }
    each.events(waiter);
    const base::Instant last = now();
    Release(waiter.hold);
    AskInVain();
    EXPECT_EQ(now(), last + each.more);
  }
}

TEST_F(LockStateReleaseTest, UnansweredAcquireProlongsCleanup) {
  Waiter& waiter = Answered(Silence());  // may be executed at any time
  Deliver(FetchDue<AcquireRequest>(), Granted());
  Pass(kLease);
  Expire();
  EXPECT_FALSE(Valid(waiter));
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_TRUE(release.leaves_tombstone());
  Deliver(release, Silence(/*may_have_executed=*/false));
  // The server has forgotten the grant, but has no tombstone yet.
  Deliver(Fetch<ReleaseRequest>(), NotHeld());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateReleaseTest, HeartbeatThatFailsAfterTheGrantLeavesTombstone) {
  Waiter& waiter = Queue();
  const Request heartbeat = FetchDue<AcquireRequest>();
  DeliverGrant(GrantOf(heartbeat));
  Deliver(heartbeat, Silence());
  EXPECT_TRUE(FetchReleaseOf(waiter.hold).leaves_tombstone());
}

TEST_F(LockStateReleaseTest, OutlastsAcquireThatMayComeLate) {
  Waiter& waiter = Answered(Silence());
  Deliver(FetchDue<AcquireRequest>(), Granted());
  const base::Instant over = now() + 2 * kLease;  // a lease, and three heartbeats of a third each
  Release(waiter.hold);
  AskInVain(/*may_have_executed=*/false);
  EXPECT_EQ(now(), over);
}

TEST_F(LockStateReleaseTest, AcquireTakesPostponedReleaseAlong) {
  Waiter& first = Hold();
  Release(first.hold);
  ASSERT_TRUE(state().NextRequestOf(first.hold, now()).has_value());
  state().Postpone(first.hold);
  EXPECT_TRUE(state().next_request_at().is_infinite()) << "its driver comes for it";
  Acquire({.thread = 2});
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_NE(release.acquire(), nullptr);
  EXPECT_FALSE(state().NextRequestOf(first.hold, now()).has_value()) << "it is in flight";
  EXPECT_FALSE(Next().has_value()) << "so is the acquire request";
}

TEST_F(LockStateReleaseTest, PostponedRetryTakesNoAcquireAlong) {
  Waiter& first = Hold();
  Release(first.hold);
  Deliver(*state().NextRequestOf(first.hold, now()), Silence());
  ASSERT_TRUE(state().NextRequestOf(first.hold, now()).has_value());
  state().Postpone(first.hold);
  Acquire({.thread = 2});
  EXPECT_EQ(Fetch<ReleaseRequest>().acquire(), nullptr) << "it may have been executed";
}

}  // namespace
}  // namespace redlatch::internal
