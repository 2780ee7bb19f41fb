// Tests holds that are told when another waiter wants the lock.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

struct LockStateWantedTest : LockStateTest {
  static Want Told(uint64_t thread = 1, Face face = Face::kStatus,
                   std::optional<Duration> turn = absl::ZeroDuration()) {
    return {.thread = thread, .face = face, .turn = turn, .told = true};
  }
  static Want ToldInTurn(uint64_t thread) {
    return Told(thread, Face::kStatus, absl::Milliseconds(5));
  }
  static Result HeldWith(int64_t others) { return {.what = StillHeld{.others = others}}; }
  // Returns how many holds were told by the last event.
  int64_t Tells() const { return std::ranges::count(Notices(), Notice::Kind::kWanted); }
};

TEST_F(LockStateWantedTest, RecallTellsHoldOnce) {
  const Waiter& holder = Hold(Told());
  const std::stop_token wanted = holder.view->Wanted();
  ASSERT_TRUE(wanted.stop_possible());
  EXPECT_TRUE(IsCacheable(state().grant_id())) << "so that the scripts recall it";
  EXPECT_TRUE(state().recallable());
  Recall(state().grant_id());
  ASSERT_EQ(Tells(), 1);
  const Notice& notice = effects().notices[0];
  EXPECT_EQ(notice.token, holder.token);
  EXPECT_EQ(notice.options, holder.options);
  EXPECT_EQ(notice.view, holder.view);
  EXPECT_FALSE(wanted.stop_requested()) << "tokens fire by themselves";
  EXPECT_TRUE(holder.view->Wanted().stop_requested());
  notice.view->Fire(HoldState::Signal::kWanted);
  EXPECT_TRUE(wanted.stop_requested());
  EXPECT_FALSE(holder.view->Lost(now()).stop_requested());
  Recall(state().grant_id());
  EXPECT_EQ(Tells(), 0);
  EXPECT_TRUE(Valid(holder));
}

TEST_F(LockStateWantedTest, HoldWithoutTheOptionIsNotTold) {
  const Waiter& holder = Hold();
  EXPECT_FALSE(IsCacheable(state().grant_id()));
  EXPECT_FALSE(state().recallable());
  Acquire({.thread = 2});
  EXPECT_EQ(Tells(), 0);
  Recall(state().grant_id());
  EXPECT_EQ(Tells(), 0);
  EXPECT_FALSE(holder.view->Wanted().stop_possible());
}

TEST_F(LockStateWantedTest, TryIsNotAWaiter) {
  Hold(Told());
  Recall(state().grant_id(), /*tried=*/true);
  EXPECT_EQ(Tells(), 0);
  Acquire({.thread = 2, .wait_limit = WaitLimit::kNone});
  EXPECT_EQ(Tells(), 0);
  Recall(state().grant_id());
  EXPECT_EQ(Tells(), 1);
}

TEST_F(LockStateWantedTest, TryWaitingForReplyIsNotAWaiter) {
  Acquire(Told());
  Want tries = Told(2);
  tries.wait_limit = WaitLimit::kNone;
  Answered(Granted(), tries);
  EXPECT_EQ(Tells(), 0);
}

TEST_F(LockStateWantedTest, WaitingThreadTellsHold) {
  Hold(Told());
  Waiter& second = Acquire({.thread = 2});
  EXPECT_EQ(Tells(), 1);
  GiveUp(second);
  Acquire({.thread = 3});
  EXPECT_EQ(Tells(), 0) << "a hold is told once";
}

TEST_F(LockStateWantedTest, NextHoldIsToldAtOnceIfThreadsStillWait) {
  const auto [holder, next] = Contended(ToldInTurn(1), ToldInTurn(2));
  EXPECT_EQ(Tells(), 1);
  Waiter& last = Acquire(ToldInTurn(3));
  EXPECT_EQ(Tells(), 0);
  EXPECT_EQ(Release(holder->hold).kind, Kind::kDone);
  if (next->state != State::kGranted) Wake(*next);
  ASSERT_EQ(next->state, State::kGranted);
  EXPECT_EQ(Tells(), 1);
  EXPECT_TRUE(next->view->Wanted().stop_requested());
  EXPECT_EQ(Release(next->hold).kind, Kind::kDone);
  if (last.state != State::kGranted) Wake(last);
  ASSERT_EQ(last.state, State::kGranted);
  EXPECT_EQ(Tells(), 0);
  EXPECT_FALSE(last.view->Wanted().stop_requested());
}

TEST_F(LockStateWantedTest, GrantTellsHoldIfOthersWait) {
  const Waiter& asked = Answered(Granted(/*others=*/1), Told());
  EXPECT_EQ(Tells(), 1);
  EXPECT_TRUE(asked.view->Wanted().stop_requested());
  Make({});
  const auto [queued, request] = Asked(Told());
  Deliver(request, Queued());
  NewGrant news = GrantOf(request);
  news.others = 1;
  DeliverGrant(news);
  ASSERT_EQ(queued.state, State::kGranted);
  EXPECT_EQ(Tells(), 1);
}

TEST_F(LockStateWantedTest, RecallBeforeResultIsCheckedAtGrant) {
  const Request request = Asked(Told()).second;
  Recall(state().grant_id());
  Deliver(request, Granted());
  EXPECT_EQ(Tells(), 0);
  Deliver(Fetch<RenewRequest>(), HeldWith(1));
  EXPECT_EQ(Tells(), 1);
}

TEST_F(LockStateWantedTest, LateResultTellsHold) {
  const Request first = Asked(Told()).second;
  Deliver(first, Queued());
  const Request heartbeat = FetchDue<AcquireRequest>();
  DeliverGrant(GrantOf(first));
  EXPECT_EQ(Tells(), 0);
  Deliver(heartbeat, Granted(/*others=*/1));
  EXPECT_EQ(Tells(), 1);
}

TEST_F(LockStateWantedTest, RenewalTellsHoldIfMessageWasLost) {
  Hold(Told());
  const Request renewal = FetchDue<RenewRequest>();
  EXPECT_EQ(As<RenewRequest>(renewal).last_token, 0) << "no tokens are reserved";
  Deliver(renewal, HeldWith(0));
  EXPECT_EQ(Tells(), 0);
  Deliver(FetchDue<RenewRequest>(), HeldWith(2));
  EXPECT_EQ(Tells(), 1);
}

TEST_F(LockStateWantedTest, ReaderDoesNotJoinIfRecallOvertookResultOfRenewal) {
  Make({.use = GrantUse::kShared, .reentrant = true});
  Hold(Told());
  Waiter& second = Acquire(Told(2));
  const Request renewal = Fetch<RenewRequest>();
  Recall(state().grant_id());
  EXPECT_EQ(Tells(), 1);
  Deliver(renewal, HeldWith(0));
  EXPECT_EQ(second.state, State::kElsewhere);
}

TEST_F(LockStateWantedTest, ExtensionTellsManualHold) {
  Want manual = Told();
  manual.manual = true;
  const Waiter& holder = Hold(manual);
  const std::optional<Request> extension = state().Extend(holder.hold, kLease, now());
  ASSERT_TRUE(extension.has_value());
  Deliver(*extension, HeldWith(1));
  EXPECT_EQ(Tells(), 1);
}

TEST_F(LockStateWantedTest, HoldIsNotToldBeforeReplicasConfirmIt) {
  Want acked = Told();
  acked.acks = 1;
  const Waiter& holder = Answered(Granted(/*others=*/1), acked);
  EXPECT_EQ(Tells(), 0) << "it may be given back";
  const std::optional<Request> confirmation = state().Confirm(holder.hold, now() + kThird, now());
  ASSERT_TRUE(confirmation.has_value());
  Deliver(*confirmation, {.what = StillHeld{.acked = true}});
  EXPECT_EQ(Tells(), 1);
}

TEST_F(LockStateWantedTest, UncontendedReleaseIsPlainAndLeavesNothingCached) {
  const uint64_t hold = Hold(Told(1, Face::kStatus, std::nullopt)).hold;
  state().OnSubscribed();
  EXPECT_EQ(Release(hold).kind, Kind::kUnconfirmed);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_EQ(As<ReleaseRequest>(release).last_used, As<ReleaseRequest>(release).last_reserved);
  EXPECT_FALSE(state().recallable());
  Deliver(release, ReleasedThen());
  EXPECT_EQ(state().Outcome(hold).kind, Kind::kDone);
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateWantedTest, HoldByLockIsToldWithoutAndWithView) {
  Hold(Told(1, Face::kStd));
  Recall(state().grant_id());
  ASSERT_EQ(Tells(), 1);
  EXPECT_EQ(effects().notices[0].view, nullptr);
  EXPECT_TRUE(state().Current(1, now()).view->Wanted().stop_requested());
  Make({});
  Hold(Told(1, Face::kStd));
  const auto view = state().Current(1, now()).view;
  EXPECT_FALSE(view->Wanted().stop_requested());
  Recall(state().grant_id());
  EXPECT_TRUE(view->Wanted().stop_requested());
}

TEST_F(LockStateWantedTest, IsNotAcquiredNatively) {
  Want told = Told(1, Face::kStd);
  told.native = true;
  Acquire(told);
  EXPECT_FALSE(IsNative(AcquireOf(Fetch<AcquireRequest>()).grant));
}

TEST_F(LockStateWantedTest, GrantServesOnlyHoldsWithTheSameOption) {
  const auto [holder, other] =
      Contended(ToldInTurn(1), {.thread = 2, .turn = absl::Milliseconds(5)});
  EXPECT_EQ(Release(holder->hold).kind, Kind::kUnconfirmed) << "it does not pass on";
  EXPECT_EQ(other->state, State::kWaiting);
}

TEST_F(LockStateWantedTest, CachedGrantIsTakenOnlyWithTheSameOption) {
  state().OnSubscribed();
  Want caches = Told(1, Face::kStd);
  caches.cache_for = absl::Seconds(2);
  Hold(caches);
  EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  LockOptions options{.lease = kLease, .cache_for = caches.cache_for};
  EXPECT_FALSE(state().TakeCachedNow(1, std::make_shared<const LockOptions>(options), now()));
  options.on_wanted = [](const WantedLease&) {};
  ASSERT_TRUE(state().TakeCachedNow(1, std::make_shared<const LockOptions>(options), now()));
  Recall(state().grant_id());
  EXPECT_EQ(Tells(), 1);
}

TEST_F(LockStateWantedTest, WaitingWriterTellsEachReader) {
  Make({.use = GrantUse::kShared, .reentrant = true});
  const auto reader = [](uint64_t thread) { return Told(thread, Face::kStatus, std::nullopt); };
  Hold(reader(1));
  ASSERT_EQ(Acquire(reader(2)).state, State::kGranted);
  EXPECT_EQ(Tells(), 0) << "readers do not want each other's holds";
  Pass(absl::Milliseconds(5));
  EXPECT_EQ(Acquire(reader(3)).state, State::kWaiting);
  EXPECT_EQ(Tells(), 0);
  Deliver(Fetch<RenewRequest>(), HeldWith(1));
  EXPECT_EQ(Tells(), 2);
}

// A thread that waits for its Owner's hold does not want it to end.
TEST_F(LockStateWantedTest, HoldOfOwnerIsNotToldOfOwnThreads) {
  Make({.reentrant = true, .explicit_owner = true});
  const auto [first, request] = Asked(Told());
  Deliver(request, Queued());
  DeliverGrant(GrantOf(request));
  ASSERT_EQ(first.state, State::kGranted);
  Want whole = Told(2);
  whole.whole = true;
  EXPECT_EQ(Acquire(whole).state, State::kWaiting);
  EXPECT_EQ(Tells(), 0);
  Recall(state().grant_id());
  EXPECT_EQ(Tells(), 1);
}

TEST(WantedHoldState, JointHoldIsWantedWithFirstPart) {
  const auto a = std::make_shared<HoldState>();
  const auto b = std::make_shared<HoldState>();
  EXPECT_FALSE(JointHoldState({{"a", {}, a}, {"b", {}, b}}).Wanted().stop_possible());
  b->SetWanted(false);
  JointHoldState both({{"a", {}, a}, {"b", {}, b}});
  const std::stop_token wanted = both.Wanted();
  ASSERT_TRUE(wanted.stop_possible());
  b->SetWanted(true);
  EXPECT_FALSE(wanted.stop_requested());
  EXPECT_TRUE(both.Wanted().stop_requested());
  b->Fire(HoldState::Signal::kWanted);
  EXPECT_TRUE(wanted.stop_requested());
  EXPECT_FALSE(both.Lost(base::Instant()).stop_requested());
}

}  // namespace
}  // namespace redlatch::internal
