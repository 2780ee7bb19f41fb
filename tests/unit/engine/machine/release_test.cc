// What a client owes the server: releases and cancels, repeated until they are answered.
#include "tests/unit/engine/machine/machine_fixture.h"

namespace redlatch::engine {
namespace {

using LockMachineReleaseTest = LockMachineTest;

TEST_F(LockMachineReleaseTest, ConfirmedReleaseIsDone) {
  Waiter& waiter = Hold();
  const Released released = Release(waiter.hold);
  EXPECT_EQ(released.kind, Kind::kUnderWay);
  EXPECT_EQ(released.token.value(), kToken);
  EXPECT_FALSE(Valid(waiter));
  const Send release = Fetch<ToRelease>();
  EXPECT_FALSE(release.leaves_tombstone());
  EXPECT_EQ(release.bid(), nullptr);
  Hear(release, ReleasedThen());
  const Released outcome = machine().Outcome(waiter.hold);
  EXPECT_EQ(outcome.kind, Kind::kDone);
  EXPECT_EQ(outcome.token.value(), kToken);
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineReleaseTest, RepeatedReleaseFindsTheFirstExecutedInTime) {
  Waiter& waiter = Hold();
  Release(waiter.hold);
  Hear(Fetch<ToRelease>(), Silence());
  const Released outcome = machine().Outcome(waiter.hold);
  EXPECT_EQ(outcome.kind, Kind::kUnderWay);
  EXPECT_TRUE(absl::IsUnavailable(outcome.failure));
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kUnderWay);
  Hear(Fetch<ToRelease>(), NotHeld());  // at once, not after the backoff
  EXPECT_EQ(machine().Outcome(waiter.hold).kind, Kind::kDone);
}

TEST_F(LockMachineReleaseTest, RepeatedReleaseAnsweredAfterTheDeadlineIsLost) {
  Waiter& waiter = Hold();
  const base::Instant deadline = machine().Deadline(waiter.hold);
  Release(waiter.hold);
  Hear(Fetch<ToRelease>(), Silence());
  PassTo(machine().next_send());
  const Send again = Fetch<ToRelease>();
  PassTo(deadline);
  Hear(again, NotHeld());
  EXPECT_EQ(machine().Outcome(waiter.hold).kind, Kind::kLost);
}

TEST_F(LockMachineReleaseTest, RefusedReleaseTellsWhy) {
  Waiter& waiter = Hold();
  Release(waiter.hold);
  Hear(Fetch<ToRelease>(), Refusal(absl::PermissionDeniedError("NOPERM")));
  EXPECT_TRUE(Quiet());
  const Released outcome = machine().Outcome(waiter.hold);
  EXPECT_EQ(outcome.kind, Kind::kRefused);
  EXPECT_TRUE(absl::IsPermissionDenied(outcome.failure));
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineReleaseTest, CancelThatWasNotSentIsRepeatedWhateverTheReason) {
  Waiter& waiter = Queue();
  GiveUp(waiter);
  Hear(Fetch<ToCancel>(), NotSent(absl::PermissionDeniedError("NOAUTH")));
  PassTo(machine().next_send());
  Hear(Fetch<ToCancel>(), Cancelled());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineReleaseTest, ReleaseIsRepeatedUntilTheLeaseIsOver) {
  Waiter& waiter = Hold();
  const base::Instant over = now() + kLease;
  Release(waiter.hold);
  int tries = 0;
  while (!machine().next_send().is_infinite()) {
    PassTo(machine().next_send());
    std::optional<Send> send = Next();
    if (!send) break;
    ++tries;
    Hear(*send, Silence());
  }
  EXPECT_EQ(now(), over);
  EXPECT_THAT(tries, ::testing::AllOf(::testing::Ge(6), ::testing::Le(30)));
  EXPECT_EQ(machine().Outcome(waiter.hold).kind, Kind::kLost);
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineReleaseTest, ATryIsNotRefusedByAHoldOfOursWhoseReleaseItOvertook) {
  Release(Hold().hold);
  for (int i = 0; i < 4; ++i) {  // so that it is repeated late
    PassTo(machine().next_send());
    Hear(Fetch<ToRelease>(), Silence());
  }
  ASSERT_GT(machine().next_send(), now() + absl::Milliseconds(10));
  Waiter& waiter = Acquire({.patience = Patience::kNone});
  Hear(Fetch<ToAcquire>(), Busy());
  EXPECT_EQ(waiter.state, State::kWaiting);
  const Send again = Fetch<ToRelease>();  // at once, since the server answers
  Pass(absl::Milliseconds(1));
  const Send behind = Fetch<ToAcquire>();
  Hear(again, ReleasedThen());
  Hear(behind, Busy());
  EXPECT_EQ(waiter.state, State::kBusy) << "somebody else has it";
}

TEST_F(LockMachineReleaseTest, ReleaseCrossesARenewal) {
  Waiter& waiter = Hold();
  Pass(kThird);
  const Send renewal = Fetch<ToRenew>();
  EXPECT_TRUE(machine().Wants(renewal));
  Release(waiter.hold);
  EXPECT_FALSE(machine().Wants(renewal));
  const Send release = Fetch<ToRelease>();
  EXPECT_TRUE(Quiet());
  Hear(release, ReleasedThen());
  Hear(renewal, Held());
  EXPECT_TRUE(effects().notices.empty());
  EXPECT_FALSE(Valid(waiter));
  Pass(kLease);
  EXPECT_TRUE(Quiet()) << "no renewal after a release";
  machine().Forget(waiter.hold);
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineReleaseTest, BidOfTheNextTravelsWithTheReleaseOnce) {
  auto [holder, other] = Contended({.local_window = absl::ZeroDuration()}, {.thread = 2});
  Release(holder->hold);
  const Send release = Fetch<ToRelease>();
  EXPECT_NE(release.bid(), nullptr);
  EXPECT_EQ(BidOf(release).attempt, 1U);
  EXPECT_TRUE(machine().Wants(release));
  EXPECT_TRUE(Quiet());
  Hear(release, Silence());
  EXPECT_EQ(other->state, State::kWaiting);
  PassTo(machine().next_send());
  std::vector<Send> sends;
  for (int i = 0; i < 100 && sends.size() < 2; ++i) {
    if (std::optional<Send> send = Next()) sends.push_back(*send);
    Pass(absl::Milliseconds(1));
  }
  ASSERT_EQ(sends.size(), 2U);
  if (!std::holds_alternative<ToRelease>(sends[0].what)) std::swap(sends[0], sends[1]);
  EXPECT_EQ(sends[0].bid(), nullptr);
  EXPECT_TRUE(std::holds_alternative<ToAcquire>(sends[1].what));
  EXPECT_EQ(BidOf(sends[1]).grant, BidOf(release).grant);
  EXPECT_EQ(BidOf(sends[1]).attempt, 2U);
  Hear(sends[1], Granted());
  EXPECT_EQ(other->state, State::kGranted);
}

TEST_F(LockMachineReleaseTest, BidOfTheNextFollowsTheReleaseOfSeveralNames) {
  Make({.several = true});
  auto [holder, other] = Contended({.local_window = absl::ZeroDuration()}, {.thread = 2});
  Release(holder->hold);
  const Send release = Fetch<ToRelease>();
  EXPECT_EQ(release.bid(), nullptr);
  const Send acquire = Fetch<ToAcquire>();  // it does not wait for the release's answer
  EXPECT_EQ(BidOf(acquire).attempt, 1U);
  EXPECT_TRUE(Quiet());
  Hear(release, ReleasedThen());
  Hear(acquire, Granted());
  EXPECT_EQ(other->state, State::kGranted);
}

TEST_F(LockMachineReleaseTest, ReleaseWhoseBidIsNotWantedAnyMoreIsRepeatedWithoutIt) {
  auto [holder, other] = Contended({.local_window = absl::ZeroDuration()}, {.thread = 2});
  Release(holder->hold);
  const Send release = Fetch<ToRelease>();
  GiveUp(*other);
  EXPECT_TRUE(machine().Wants(release)) << "the tombstone sees to its bid";
  const Send cancel = Fetch<ToCancel>();
  EXPECT_EQ(cancel.grant, BidOf(release).grant);
  EXPECT_TRUE(cancel.leaves_tombstone());
  Hear(release, Silence(/*may_have_executed=*/false));
  Hear(cancel, Cancelled());
  PassTo(machine().next_send());
  EXPECT_EQ(Fetch<ToRelease>().bid(), nullptr);
}

TEST_F(LockMachineReleaseTest, ReconnectedDebtsAreTriedAtOnce) {
  Waiter& waiter = Hold();
  Release(waiter.hold);
  Hear(Fetch<ToRelease>(), Silence());
  Hear(Fetch<ToRelease>(), Silence());  // once more at once, on a new connection
  EXPECT_TRUE(Quiet());
  machine().OnReconnected(now());
  Hear(Fetch<ToRelease>(), ReleasedThen());
}

TEST_F(LockMachineReleaseTest, LeaseStaysWhereItsThreadCannotUnlockAnyMore) {
  Make({.reentrant = true});
  Waiter& lease = Hold();
  Acquire({.face = Face::kStd});
  Acquire({.face = Face::kStd});
  ReleaseStd();
  EXPECT_TRUE(Valid(lease));
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(machine().OfThread(1).depth, 1U);
  EXPECT_EQ(Release(lease.hold).kind, Kind::kUnderWay);
  Hear(Fetch<ToRelease>(), ReleasedThen());
  EXPECT_EQ(Release(lease.hold).kind, Kind::kDone);
}

TEST_F(LockMachineReleaseTest, LossIsForgottenWhereItsThreadCannotUnlockAnyMore) {
  Hold({.face = Face::kStd});
  Pass(kLease);
  Expire();
  EXPECT_NE(machine().ViewOf(1), nullptr);
  ReleaseStd();
  EXPECT_EQ(machine().ViewOf(1), nullptr);
  EXPECT_EQ(Unlock(1).kind, Kind::kNotHeld);
}

TEST_F(LockMachineReleaseTest, OptionsOutliveTheEventThatEndsTheirHold) {
  std::weak_ptr<const LockOptions> options;
  Waiter& waiter = Hold();
  options = waiter.options;
  waiter.options.reset();
  Release(waiter.hold);
  EXPECT_FALSE(options.expired()) << "a user's destructor would run under the entry's mutex";
}

TEST_F(LockMachineReleaseTest, RenewalThatWasExecutedLateKeepsTheReleaseAlive) {
  Waiter& waiter = Hold();
  Pass(kThird);
  const Send renewal = Fetch<ToRenew>();
  Release(waiter.hold);
  Pass(kThird);
  Hear(renewal, Held());
  const base::Instant renewed = now();
  Hear(Fetch<ToRelease>(), Silence());
  while (!machine().next_send().is_infinite()) {
    PassTo(machine().next_send());
    if (std::optional<Send> send = Next()) Hear(*send, Silence());
  }
  EXPECT_EQ(now(), renewed + kLease);
}

TEST_F(LockMachineReleaseTest, UnansweredBidKeepsTheReleaseAlive) {
  Waiter& waiter = Acquire();
  Hear(Fetch<ToAcquire>(), Silence());  // may be executed at any time
  PassTo(machine().next_send());
  Hear(Fetch<ToAcquire>(), Granted());
  Pass(kLease);
  Expire();
  EXPECT_FALSE(Valid(waiter));
  const Send release = Fetch<ToRelease>();
  EXPECT_TRUE(release.leaves_tombstone());
  Hear(release, Silence(/*may_have_executed=*/false));
  // The server has forgotten the hold, but knows of no tombstone yet.
  Hear(Fetch<ToRelease>(), NotHeld());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineReleaseTest, AcquireTakesAPostponedReleaseAlong) {
  Waiter& first = Hold();
  Release(first.hold);
  ASSERT_TRUE(machine().NextSendOf(first.hold, now()).has_value());
  machine().Postpone(first.hold);
  EXPECT_TRUE(machine().next_send().is_infinite()) << "its driver comes for it";
  Acquire({.thread = 2});
  const Send release = Fetch<ToRelease>();
  EXPECT_NE(release.bid(), nullptr);
  EXPECT_FALSE(machine().NextSendOf(first.hold, now()).has_value()) << "it is under way";
  EXPECT_FALSE(Next().has_value()) << "so is the acquire request";
}

TEST_F(LockMachineReleaseTest, PostponedRetryTakesNoAcquireAlong) {
  Waiter& first = Hold();
  Release(first.hold);
  Hear(*machine().NextSendOf(first.hold, now()), Silence());
  ASSERT_TRUE(machine().NextSendOf(first.hold, now()).has_value());
  machine().Postpone(first.hold);
  Acquire({.thread = 2});
  EXPECT_EQ(Fetch<ToRelease>().bid(), nullptr) << "it may have been executed";
}

}  // namespace
}  // namespace redlatch::engine
