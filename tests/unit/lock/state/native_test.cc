// Native acquisitions: one command in place of a script, while no other client is known to want the
// lock.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct LockStateNativeTest : LockStateTest {
  static constexpr absl::Duration kClaim = absl::Seconds(2);
  static constexpr Want kLock{.face = Face::kStd, .native = true};

  static Result Taken() { return {.what = AcquireResult(AcquireTaken())}; }
  static bool IsNativeAcquire(const Request& request) {
    return request.acquire() != nullptr && IsNative(AcquireOf(request).grant);
  }
  static bool IsNativeRelease(const Request& request) { return As<ReleaseRequest>(request).native; }

  // A thread that has the lock by a native acquire.
  Waiter& HoldNatively() {
    const auto [waiter, request] = Asked(kLock);
    EXPECT_TRUE(IsNativeAcquire(request));
    Deliver(request, Granted(0, kClaim, 0));
    EXPECT_EQ(waiter.state, State::kGranted);
    return waiter;
  }
  Request FetchUnlock() {
    Unlock(1);
    return Fetch<ReleaseRequest>();
  }
  // Others have the lock when a thread acquires it. The thread waits, and gets it.
  void FindTaken() {
    Answered(Taken(), kLock);
    Deliver(Fetch<AcquireRequest>(), Granted());
    Deliver(FetchUnlock(), ReleasedThen());
  }
  // Makes pairs until one is native. Returns how many were made by scripts before it.
  int CountScripts() {
    int scripts = 0;
    while (!PairIsNative()) ++scripts;
    return scripts;
  }
  // The lock is acquired and released, by a script or natively.
  bool PairIsNative() {
    const Request request = Asked(kLock).second;
    const bool native = IsNativeAcquire(request);
    Deliver(request, native ? Granted(0, kClaim, 0) : Granted());
    const Request release = FetchUnlock();
    EXPECT_EQ(IsNativeRelease(release), native);
    Deliver(release, ReleasedThen());
    return native;
  }
};

TEST_F(LockStateNativeTest, LockIsAcquiredAndReleasedNatively) {
  const Waiter& waiter = HoldNatively();
  EXPECT_TRUE(Valid(waiter));
  EXPECT_EQ(waiter.token, FencingToken());
  const Request release = FetchUnlock();
  EXPECT_TRUE(IsNativeRelease(release));
  EXPECT_TRUE(IsNative(release.grant));
  Deliver(release, ReleasedThen());
  EXPECT_EQ(state().Outcome(waiter.hold).kind, Kind::kDone);
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateNativeTest, OnlyPlainLocksAreAcquiredNatively) {
  for (const Want& want :
       {Want{.native = true}, Want{.face = Face::kStd},
        Want{.face = Face::kStd, .manual = true, .native = true},
        Want{.face = Face::kStd, .whole = true, .native = true},
        Want{.face = Face::kStd, .cache_for = absl::Seconds(1), .native = true}}) {
    Make({});
    Acquire(want);
    EXPECT_FALSE(IsNativeAcquire(Fetch<AcquireRequest>()));
  }
  Make({.explicit_owner = true});
  Acquire(kLock);
  EXPECT_FALSE(IsNativeAcquire(Fetch<AcquireRequest>()));
}

TEST_F(LockStateNativeTest, GrantIsClaimUntilFirstRenewal) {
  const Waiter& waiter = HoldNatively();
  EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(now(), kClaim));
  Pass(absl::Milliseconds(99));
  EXPECT_TRUE(Quiet());
  Pass(absl::Milliseconds(1));
  const Request renewal = Fetch<RenewRequest>();
  EXPECT_EQ(renewal.lease, kLease);
  EXPECT_TRUE(As<RenewRequest>(renewal).draws_token);
  Deliver(renewal, {.what = StillHeld{.last_token = kToken}});
  EXPECT_EQ(state().Deadline(waiter.hold), LocalDeadline(now(), kLease));
  EXPECT_EQ(state().Current(1, now()).token.value(), kToken);
  EXPECT_FALSE(IsNativeRelease(FetchUnlock())) << "the server may have it for a lease";
}

TEST_F(LockStateNativeTest, TakenLockIsAskedForByScriptUnderAnotherId) {
  const auto [waiter, native] = Asked(kLock);
  Deliver(native, Taken());
  const Request script = Fetch<AcquireRequest>();
  EXPECT_FALSE(IsNativeAcquire(script));
  EXPECT_NE(script.grant & ~kNative, native.grant & ~kNative);
  EXPECT_EQ(AcquireOf(script).attempt, 1U);
  EXPECT_TRUE(AcquireOf(script).wait);
  Deliver(script, Queued());
  EXPECT_EQ(waiter.state, State::kWaiting);
}

TEST_F(LockStateNativeTest, RefusedAcquireIsMadeByScript) {
  Waiter& waiter = Answered(Refusal(absl::PermissionDeniedError("no SET")), kLock);
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_FALSE(IsNativeAcquire(Fetch<AcquireRequest>()));
}

TEST_F(LockStateNativeTest, TryOfTakenLockIsDecidedByScript) {
  Waiter& waiter =
      Answered(Taken(), {.face = Face::kStd, .wait_limit = WaitLimit::kNone, .native = true});
  EXPECT_EQ(waiter.state, State::kWaiting);
  Deliver(Fetch<AcquireRequest>(), Busy());
  EXPECT_EQ(waiter.state, State::kBusy);
}

TEST_F(LockStateNativeTest, UnansweredAcquireIsCancelledAndNeverRepeated) {
  const Request native = Asked(kLock).second;
  Deliver(native, Silence());
  const Request cancel = Fetch<CancelRequest>();
  EXPECT_EQ(cancel.grant, native.grant);
  const Request script = FetchDue<AcquireRequest>();
  EXPECT_FALSE(IsNativeAcquire(script));
  Deliver(cancel, Cancelled());
  Deliver(script, Granted());
  EXPECT_FALSE(FetchUnlock().leaves_tombstone());
}

TEST_F(LockStateNativeTest, RecallOfGrantThatCameTooLateReleasesIt) {
  const auto [waiter, native] = Asked(kLock);
  GiveUp(waiter);
  const Request cancel = Fetch<CancelRequest>();
  state().OnUnknownNative(native.grant, now());
  EXPECT_TRUE(Quiet()) << "the cancel is in flight";
  Deliver(cancel, Cancelled());
  for (int i = 0; i < 3; ++i) state().OnUnknownNative(native.grant + i, now());
  const Request again = Fetch<CancelRequest>();
  EXPECT_EQ(again.grant, native.grant);
  EXPECT_FALSE(again.leaves_tombstone());
  EXPECT_TRUE(Quiet()) << "one at a time";
  Deliver(again, Cancelled());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateNativeTest, RecallOfPendingGrantReleasesNothing) {
  const Request native = Asked(kLock).second;
  state().OnUnknownNative(native.grant, now());
  EXPECT_TRUE(Quiet());
  Deliver(native, Granted(0, kClaim, 0));
  state().OnUnknownNative(native.grant, now());
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateNativeTest, LateGrantIsCancelled) {
  const Waiter& waiter = Acquire(kLock);
  const Request native = Fetch<AcquireRequest>();
  Pass(absl::Milliseconds(1600));  // less than a quarter of the claim is left
  Deliver(native, Granted(0, kClaim, 0));
  EXPECT_EQ(waiter.state, State::kWaiting);
  EXPECT_EQ(Fetch<CancelRequest>().grant, native.grant);
  EXPECT_FALSE(IsNativeAcquire(Fetch<AcquireRequest>()));
}

TEST_F(LockStateNativeTest, GrantThatNobodyWantsAnyMoreIsCancelled) {
  const auto [waiter, native] = Asked(kLock);
  GiveUp(waiter);
  EXPECT_EQ(Fetch<CancelRequest>().grant, native.grant);
  Deliver(native, Granted(0, kClaim, 0));
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateNativeTest, FlaggedGrantIsReleasedByScriptWhichShowsItsLoss) {
  for (const bool lost : {false, true}) {
    Make({});
    const Waiter& waiter = HoldNatively();
    const Request native = FetchUnlock();
    Deliver(native, NotHeld());
    EXPECT_EQ(state().Outcome(waiter.hold).kind, Kind::kUnconfirmed);
    const Request script = Fetch<ReleaseRequest>();
    EXPECT_FALSE(IsNativeRelease(script));
    EXPECT_EQ(script.grant, native.grant);
    Deliver(script, lost ? NotHeld() : ReleasedThen());
    EXPECT_EQ(state().Outcome(waiter.hold).kind, lost ? Kind::kLost : Kind::kDone);
    EXPECT_TRUE(state().vacant());
  }
}

TEST_F(LockStateNativeTest, UnansweredReleaseIsRepeatedByScript) {
  const Waiter& waiter = HoldNatively();
  Deliver(FetchUnlock(), Silence());
  const Request script = FetchDue<ReleaseRequest>();
  EXPECT_FALSE(IsNativeRelease(script));
  Deliver(script, NotHeld());
  EXPECT_EQ(state().Outcome(waiter.hold).kind, Kind::kDone);
}

TEST_F(LockStateNativeTest, RefusedReleaseIsRepeatedByScript) {
  for (const Result& refusal :
       {Refusal(absl::PermissionDeniedError("NOPERM")), Silence(/*may_have_executed=*/false)}) {
    Make({});
    HoldNatively();
    Deliver(FetchUnlock(), refusal);
    EXPECT_FALSE(IsNativeRelease(Fetch<ReleaseRequest>()));
  }
}

TEST_F(LockStateNativeTest, RecalledOrForcedGrantIsReleasedByScript) {
  for (const bool forced : {false, true}) {
    Make({});
    const Waiter& waiter = HoldNatively();
    forced ? state().OnForced(state().grant_id(), now()) : Recall(state().grant_id());
    EXPECT_TRUE(Valid(waiter));
    EXPECT_FALSE(IsNativeRelease(FetchUnlock()));
  }
}

TEST_F(LockStateNativeTest, ReleaseForWaitingThreadIsByScriptAndAsksAgain) {
  HoldNatively();
  Acquire({.thread = 2, .face = Face::kStd, .native = true});
  const Request release = FetchUnlock();
  EXPECT_FALSE(IsNativeRelease(release));
  EXPECT_FALSE(IsNative(AcquireOf(release).grant));
}

TEST_F(LockStateNativeTest, ContentionMakesNextAcquisitionsUseScripts) {
  FindTaken();
  EXPECT_EQ(CountScripts(), 3);
  EXPECT_TRUE(PairIsNative());
  FindTaken();
  EXPECT_EQ(CountScripts(), 3);
}

TEST_F(LockStateNativeTest, TokenIsDrawnWhenAskedForAndComesAlongFromThenOn) {
  const Waiter& waiter = HoldNatively();
  EXPECT_FALSE(state().DrawFor(2, now())) << "it is another thread's";
  const std::optional<Request> draw = state().DrawFor(1, now());
  ASSERT_TRUE(draw);
  EXPECT_TRUE(As<RenewRequest>(*draw).draws_token);
  Deliver(*draw, {.what = StillHeld{.last_token = kToken}});
  EXPECT_FALSE(state().DrawFor(1, now())) << "it has one to hand out";
  EXPECT_EQ(state().Current(1, now()).token.value(), kToken);
  EXPECT_FALSE(state().DrawFor(1, now()));
  EXPECT_TRUE(Valid(waiter));
  const Request release = FetchUnlock();
  EXPECT_FALSE(IsNativeRelease(release));
  EXPECT_EQ(As<ReleaseRequest>(release).last_used, As<ReleaseRequest>(release).last_reserved);
  Deliver(release, ReleasedThen());
  EXPECT_FALSE(PairIsNative());
}

TEST_F(LockStateNativeTest, RenewalWithoutTokenLeavesHoldWithoutOne) {
  HoldNatively();
  Pass(absl::Milliseconds(100));
  Deliver(Fetch<RenewRequest>(), HoldRef());
  EXPECT_EQ(state().Current(1, now()).token, FencingToken());
  ASSERT_TRUE(state().DrawFor(1, now()));
}

TEST_F(LockStateNativeTest, TokenIsDrawnOnlyForNativeHolds) {
  EXPECT_FALSE(state().DrawFor(1, now()));
  HoldNatively();
  Pass(kClaim);
  EXPECT_FALSE(state().DrawFor(1, now())) << "its deadline has passed";
  Make({});
  Hold(Want{.face = Face::kStd});
  EXPECT_FALSE(state().DrawFor(1, now()));
  EXPECT_FALSE(state().Extend(state().OfThread(1).hold, kLease, now())) << "it is renewed anyway";
}

TEST_F(LockStateNativeTest, HandoverCheckComesBeforeNativeAcquire) {
  state().CheckHandoverAfter(absl::Seconds(2), /*unfinished=*/false, now());
  Acquire(kLock);
  EXPECT_FALSE(IsNativeAcquire(Fetch<AcquireRequest>()));
}

}  // namespace
}  // namespace redlatch::internal
