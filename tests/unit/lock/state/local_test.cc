// Between threads of a client: turns, retakes, wakes, blocks of tokens, reentry.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

using LockStateLocalTest = LockStateTest;
constexpr absl::Duration kWindow = absl::Milliseconds(5);

TEST_F(LockStateLocalTest, PassesOnWithinTurn) {
  auto [holder, other] = Contended({}, {.thread = 2});
  Pass(kWindow - absl::Nanoseconds(1));
  EXPECT_EQ(Release(holder->hold).kind, Kind::kDone);
  EXPECT_EQ(other->state, State::kGranted);
  EXPECT_TRUE(Woken(*other));
  EXPECT_NE(other->hold, holder->hold);
  EXPECT_TRUE(Valid(*other));
  EXPECT_FALSE(Valid(*holder));
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateLocalTest, PassesOnOnlyWithinTurnOnEqualTerms) {
  struct Case {
    Want first, second = {.thread = 2};
    int64_t others = 0;
    absl::Duration later = absl::ZeroDuration();
    uint32_t block = 1;
  };
  const absl::Duration none = absl::ZeroDuration();
  for (const Case& c : {Case{.later = kWindow, .block = 4096}, Case{.others = 1, .block = 4096},
                        Case{.first = {.turn = none}, .second = {.thread = 2, .turn = none}},
                        Case{.second = {.thread = 2, .lease = 2 * kLease}, .block = 4096},
                        Case{.first = {.manual = true}, .second = {.thread = 2, .manual = true}}}) {
    Make({});
    Waiter& holder = Acquire(c.first);
    Waiter& other = Answered(Granted(c.others), c.second);
    Pass(c.later);
    EXPECT_EQ(Release(holder.hold).kind, Kind::kUnconfirmed);
    EXPECT_EQ(other.state, State::kWaiting);
    const Request release = Fetch<ReleaseRequest>();
    EXPECT_EQ(AcquireOf(release).terms.lease, c.second.lease);
    EXPECT_EQ(AcquireOf(release).amount, c.block);
  }
}

TEST_F(LockStateLocalTest, RequeueStartsNewTurn) {
  auto [holder, other] = Contended({}, {.thread = 2});
  Pass(kWindow);
  const Request release = FetchReleaseOf(holder->hold);
  EXPECT_EQ(AcquireOf(release).amount, 4096U) << "the thread that releases will come again";
  Waiter& again = Acquire();
  Deliver(release, ReleasedThen(AcquireGranted{.token = kToken + 9000, .lease = kLease}));
  ASSERT_EQ(other->state, State::kGranted);
  Pass(kWindow - absl::Nanoseconds(1));
  EXPECT_EQ(Release(other->hold).kind, Kind::kDone);
  EXPECT_EQ(again.state, State::kGranted);
  EXPECT_EQ(again.token.value(), kToken + 9001);
}

TEST_F(LockStateLocalTest, ExplicitOwnersHoldGoesBackToServer) {
  Make({.reentrant = true, .explicit_owner = true});
  Waiter& holder = Hold();
  Waiter& same = Acquire({.thread = 2});
  EXPECT_EQ(same.state, State::kGranted) << "every call with this owner enters";
  EXPECT_EQ(same.hold, holder.hold);
  EXPECT_EQ(Release(same.hold).kind, Kind::kDone);
  EXPECT_TRUE(Valid(holder));
  EXPECT_EQ(Release(holder.hold).kind, Kind::kUnconfirmed);
  Fetch<ReleaseRequest>();
}

TEST_F(LockStateLocalTest, ThreadsOfOneOwnerEnterTogether) {
  Make({.reentrant = true, .explicit_owner = true});
  Waiter& first = Acquire();
  Waiter& second = Acquire({.thread = 2});
  Waiter& impatient = Answered(Granted(), {.thread = 3, .wait_limit = WaitLimit::kNone});
  for (Waiter* each : {&first, &second, &impatient}) {
    EXPECT_EQ(each->state, State::kGranted);
    EXPECT_TRUE(Woken(*each));
    EXPECT_EQ(each->hold, first.hold);
    EXPECT_EQ(each->token, first.token);
    EXPECT_NE(each->view, nullptr);
  }
  EXPECT_EQ(Release(first.hold).kind, Kind::kDone);
  EXPECT_EQ(Release(first.hold).kind, Kind::kDone);
  EXPECT_EQ(Release(first.hold).kind, Kind::kUnconfirmed);
  EXPECT_EQ(Fetch<ReleaseRequest>().acquire(), nullptr);
}

TEST_F(LockStateLocalTest, ThreadThatJoinsClaimCanRequireWholeLease) {
  Make({.reentrant = true, .explicit_owner = true});
  Waiter& first = Queue();
  const Waiter& manual = Acquire({.thread = 3, .manual = true});
  DeliverGrant({.grant = kFirst, .attempt = 1, .token = kToken, .lease = kLease / 2});
  ASSERT_EQ(first.state, State::kGranted);
  const Waiter& whole = Acquire({.thread = 2, .whole = true});
  EXPECT_EQ(whole.state, State::kWaiting);
  EXPECT_EQ(manual.state, State::kWaiting);
  EXPECT_EQ(Acquire({.thread = 4}).hold, first.hold);
  EXPECT_EQ(Acquire({.thread = 5, .wait_limit = WaitLimit::kNone, .whole = true}).hold, first.hold);
  Deliver(Fetch<RenewRequest>(), HoldRef());
  EXPECT_EQ(whole.hold, first.hold);
  EXPECT_EQ(manual.hold, first.hold);
}

TEST_F(LockStateLocalTest, OwnerChecksHandoverDespiteItsHold) {
  Make({.reentrant = true, .explicit_owner = true});
  Waiter& holder = Acquire();
  Result granted = Granted();
  granted.check_after = absl::Seconds(1);  // other locks of its owner have claims
  Deliver(Fetch<AcquireRequest>(), granted);
  Deliver(FetchReleaseOf(holder.hold), ReleasedThen());
  EXPECT_FALSE(state().idle());
  Pass(absl::Seconds(1) + kCheckGrace);
  Fetch<CancelRequest>();
}

TEST_F(LockStateLocalTest, BlockTokensGrowWithClock) {
  const absl::Duration window = kLease;
  Waiter& first = Acquire({.turn = window});
  Waiter* next = &Acquire({.thread = 2, .turn = window});
  const Request request = Fetch<AcquireRequest>();
  EXPECT_EQ(AcquireOf(request).amount, 4096U);
  Pass(absl::Milliseconds(1));
  Deliver(request, Granted());
  const base::Instant received = now();  // the tokens were reserved at this moment or earlier
  EXPECT_EQ(first.not_before, received);
  uint64_t hold = first.hold;
  for (uint64_t k = 1; k < 4096; ++k) {
    Waiter& waiting = Acquire({.thread = k + 2, .turn = window});
    ASSERT_EQ(Release(hold).kind, Kind::kDone) << k;
    ASSERT_EQ(next->token.value(), kToken + k);
    ASSERT_EQ(next->not_before, received + absl::Microseconds(k));
    hold = next->hold;
    next = &waiting;
  }
  EXPECT_EQ(Release(hold).kind, Kind::kUnconfirmed) << "the block is exhausted";
  EXPECT_EQ(next->state, State::kWaiting);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_EQ(As<ReleaseRequest>(release).last_used, kToken + 4095);
  EXPECT_EQ(As<ReleaseRequest>(release).last_reserved, kToken + 4095);
}

TEST_F(LockStateLocalTest, HeadGetsLockAfterRetakes) {
  Make({}, /*retakes=*/3);
  auto [holder, head] = Contended({}, {.thread = 2});
  uint64_t hold = holder->hold;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Release(hold).kind, Kind::kDone);
    EXPECT_EQ(Woken(*head), i == 0) << "woken once";
    Waiter& again = Acquire({.wait_limit = WaitLimit::kNone});
    ASSERT_EQ(again.state, State::kGranted) << i;
    hold = again.hold;
  }
  EXPECT_EQ(Release(hold).kind, Kind::kDone);
  EXPECT_EQ(head->state, State::kGranted);
}

TEST_F(LockStateLocalTest, WokenHeadThatIsLateIsNext) {
  Make({}, /*retakes=*/16);
  auto [holder, head] = Contended({}, {.thread = 2});
  Release(holder->hold);
  Waiter& again = Acquire();
  ASSERT_EQ(again.state, State::kGranted);
  Wake(*head);
  EXPECT_EQ(head->state, State::kWaiting);
  Release(again.hold);
  EXPECT_EQ(head->state, State::kGranted) << "no further retakes";
}

TEST_F(LockStateLocalTest, LateWakeAsksServer) {
  Make({}, /*retakes=*/16);
  auto [holder, head] = Contended({}, {.thread = 2});
  Release(holder->hold);
  Pass(kWindow);
  Wake(*head);
  EXPECT_EQ(head->state, State::kWaiting);
  EXPECT_NE(Fetch<ReleaseRequest>().acquire(), nullptr);
}

// A grant that no thread uses must not be renewed for ever.
TEST_F(LockStateLocalTest, LostWakeKeepsLockUntilRenewalAtMost) {
  Make({}, /*retakes=*/16);
  auto [holder, head] = Contended({}, {.thread = 2});
  Release(holder->hold);
  PassTo(state().next_request_at());
  EXPECT_EQ(now(), state().next_expiry() + kLead - kValid + kThird);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_NE(release.acquire(), nullptr);
  Deliver(release, ReleasedThen(AcquireGranted{.token = kToken + 9000, .lease = kLease}));
  EXPECT_EQ(head->state, State::kGranted);
}

TEST_F(LockStateLocalTest, WokenHeadThatGivesUpWakesNext) {
  Make({}, /*retakes=*/16);
  auto [holder, head] = Contended({}, {.thread = 2, .wait_limit = WaitLimit::kBounded});
  Waiter& behind = Acquire({.thread = 3});
  Release(holder->hold);
  GiveUp(*head);
  EXPECT_EQ(head->state, State::kBusy);
  EXPECT_TRUE(Woken(behind));
  Wake(behind);
  EXPECT_EQ(behind.state, State::kGranted);
}

TEST_F(LockStateLocalTest, ReleaseNeverEndsLevelByLock) {
  Make({.reentrant = true});
  Waiter& waiter = Hold({.face = Face::kStd});
  Acquire({.face = Face::kStatus});
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kDone);
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kNotHeld);
  EXPECT_EQ(state().OfThread(1).depth, 1U);
  EXPECT_EQ(Unlock(1).kind, Kind::kUnconfirmed);
}

TEST_F(LockStateLocalTest, LockingTwiceIsDeadlock) {
  Hold({.face = Face::kStd});
  EXPECT_EQ(Acquire({.face = Face::kStd}).state, State::kDeadlock);
  EXPECT_EQ(Acquire({.face = Face::kStd, .wait_limit = WaitLimit::kNone}).state, State::kDeadlock);
  EXPECT_EQ(Acquire({.thread = 2, .face = Face::kStd}).state, State::kWaiting);
}

TEST_F(LockStateLocalTest, UnlockByOtherThreadReleasesNothing) {
  Waiter& waiter = Hold({.face = Face::kStd});
  EXPECT_EQ(Unlock(2).kind, Kind::kNotHeld);
  EXPECT_TRUE(Valid(waiter));
  Make({});
  Waiter& lease = Hold({.face = Face::kStatus});
  EXPECT_EQ(Unlock(1).kind, Kind::kNotHeld) << "a Lease is released by its handle";
  EXPECT_TRUE(Valid(lease));
}

TEST_F(LockStateLocalTest, ReenterAndLeaveCountLevels) {
  EXPECT_FALSE(state().Reenter(1, Face::kStd, false, now()).has_value());
  Hold({.face = Face::kStd});
  EXPECT_FALSE(state().Reenter(1, Face::kStd, false, now()).has_value()) << "not reentrant";
  Make({.reentrant = true});
  Waiter& waiter = Hold({.face = Face::kStd});
  EXPECT_FALSE(state().Reenter(2, Face::kStd, false, now()).has_value());
  EXPECT_FALSE(state().UnlockInner(1)) << "the last level is released";
  const auto held = state().Reenter(1, Face::kStd, false, now());
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(held->hold, waiter.hold);
  EXPECT_EQ(held->depth, 2U);
  EXPECT_FALSE(state().UnlockInner(2));
  EXPECT_TRUE(state().UnlockInner(1));
  PassTo(state().next_expiry());
  EXPECT_FALSE(state().Reenter(1, Face::kStd, false, now()).has_value());
}

TEST_F(LockStateLocalTest, HeadThatOversleptIsWokenAgain) {
  Make({}, /*retakes=*/1);
  auto [holder, head] = Contended({}, {.thread = 2});
  Release(holder->hold);
  ASSERT_TRUE(Woken(*head));
  Waiter& faster = Acquire({.thread = 3});
  ASSERT_EQ(faster.state, State::kGranted);
  Release(faster.hold);
  ASSERT_EQ(head->state, State::kGranted);
  Pass(kLease);
  Expire();
  head->wake_pending = false;
  head->state = State::kWaiting;
  Effects effects;
  state().Acquire(*head, now(), effects);
  EXPECT_FALSE(head->awaits_wake) << "no event would wake it";
}

TEST_F(LockStateLocalTest, PinnedHoldDoesNotPassOn) {
  const auto [first, second] = Contended({.thread = 1}, {.thread = 2});
  EXPECT_EQ(state().Pin(2, now()).depth, 0);
  EXPECT_EQ(state().Pin(1, now()).hold, first->hold);
  EXPECT_EQ(Release(first->hold).kind, Kind::kUnconfirmed);
  EXPECT_EQ(second->state, State::kWaiting);
  const Request release = Fetch<ReleaseRequest>();
  Deliver(release, ReleasedThen(AcquireQueued{.ticket = 5}));
  EXPECT_EQ(second->state, State::kWaiting);
  // The next hold is not pinned.
  DeliverGrant(GrantOf(release));
  EXPECT_EQ(second->state, State::kGranted);
}

}  // namespace
}  // namespace redlatch::internal
