// Rare states that a lock state meets: calls about a hold that is over, results that come late,
// locks that stop being what they were while a request is in flight.
#include "src/lock/state/script_operation.h"
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kKept = absl::Seconds(2);

struct RareStatesTest : LockStateTest {
  RareStatesTest() { state().OnSubscribed(); }
  static Want Std(uint64_t thread = 1) { return {.thread = thread, .face = Face::kStd}; }
  static Want Cached(uint64_t thread = 1) {
    return {.thread = thread, .face = Face::kStd, .turn = absl::ZeroDuration(), .cache_for = kKept};
  }
  static LockOptions CachedOptions() { return {.lease = kLease, .cache_for = kKept}; }
  bool TakeCachedNow(const LockOptions& options = CachedOptions(), uint64_t thread = 1) {
    return state().TakeCachedNow(thread, std::make_shared<LockOptions>(options), now());
  }
  bool LeaveCachedNow(uint64_t thread = 1) {
    std::shared_ptr<const LockOptions> ended;
    return state().LeaveCachedNow(thread, now(), ended);
  }
  static Result HeldWith(int64_t others) { return {.what = StillHeld{.others = others}}; }
};

TEST(Terms, AreEqualOnlyInAllParts) {
  const auto args = [](const char* text) {
    return std::make_shared<const std::vector<std::string>>(1, text);
  };
  const Terms others[] = {{.lease = kKept},
                          {.margin = PackedDuration(kKept)},
                          {.at_least = PackedDuration(kKept)},
                          {.manual = true},
                          {.whole = true},
                          {.cacheable = true},
                          {.bounded = true},
                          {.told = true},
                          {.acks = {.replicas = 1}},
                          {.permits = 2},
                          {.capacity = 2},
                          {.args = args("a")}};
  for (const Terms& other : others) {
    EXPECT_NE(other, Terms());
    EXPECT_NE(Terms(), other);
    EXPECT_EQ(other, Terms(other));
  }
  EXPECT_EQ(Terms{.args = args("a")}, Terms{.args = args("a")});
  EXPECT_NE(Terms{.args = args("a")}, Terms{.args = args("b")});
}

TEST_F(RareStatesTest, CallsAboutAHoldThatIsOverDoNothing) {
  const Waiter& lost = Hold(Std());
  Acquire({.thread = 3});
  GiveUp(const_cast<Waiter&>(lost), State::kStopped);
  EXPECT_EQ(lost.state, State::kGranted) << "it was decided";
  Pass(kLease);
  Expire();
  const auto expect_nothing = [&](uint64_t hold) {
    EXPECT_FALSE(state().Valid(hold, now()));
    EXPECT_EQ(state().Deadline(hold), base::Instant());
    EXPECT_FALSE(state().Extend(hold, kLease, now()));
    EXPECT_FALSE(state().StayTaken(hold, kLease, now()));
    EXPECT_FALSE(state().Confirm(hold, now(), now()));
    EXPECT_FALSE(state().NextRequestOf(hold, now()));
    EXPECT_EQ(state().LongestExtension(hold, now()), absl::InfiniteDuration());
    state().OnStaysTaken(hold, kLease);
    state().Postpone(hold);
    state().Forget(hold);
    EXPECT_EQ(state().Outcome(hold).kind, Kind::kLost);
    EXPECT_EQ(Release(hold).kind, Kind::kLost);
  };
  expect_nothing(lost.hold);
  expect_nothing(0);
  EXPECT_FALSE(state().DrawFor(1, now()));
  EXPECT_FALSE(state().UnlockInner(1));
  EXPECT_FALSE(LeaveCachedNow());
  EXPECT_FALSE(TakeCachedNow());
  EXPECT_TRUE(state().in_use()) << "its thread must unlock it";
  state().EndCaching(now());
  state().Current(1, now());
  const auto shown = state().Current(1, now());
  ASSERT_NE(shown.view, nullptr);
  EXPECT_TRUE(shown.view->Lost(now()).stop_requested());
  EXPECT_EQ(state().Current(2, now()).hold, 0U);
  EXPECT_EQ(Unlock(1).kind, Kind::kLost);
  EXPECT_EQ(Unlock(1).kind, Kind::kNotHeld);
}

TEST_F(RareStatesTest, ManualHoldThatIsEnteredWithoutALeaseIsRenewedFromThenOn) {
  Make({.reentrant = true});
  const Waiter& first = Hold({.manual = true});
  EXPECT_EQ(Acquire({.manual = true}).hold, first.hold);
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(Acquire().hold, first.hold);
  EXPECT_EQ(Fetch<RenewRequest>().lease, kLease);
  EXPECT_FALSE(state().UnlockInner(1)) << "no level is by lock()";
}

TEST_F(RareStatesTest, HoldsByLockEndWithTheLastObject) {
  Hold(Std());
  ReleaseStd();
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  EXPECT_TRUE(state().vacant());
  ReleaseStd();
  EXPECT_TRUE(Quiet());
}

TEST_F(RareStatesTest, LockByAThreadThatHasALeaseWaitsForIt) {
  Hold();
  EXPECT_EQ(Acquire(Std()).state, State::kWaiting);
  EXPECT_EQ(Acquire({.wait_limit = WaitLimit::kNone}).busy_with, BusyWith::kThisThread);
  EXPECT_EQ(Acquire({.thread = 0, .wait_limit = WaitLimit::kNone}).busy_with,
            BusyWith::kThisClient);
}

TEST_F(RareStatesTest, EachThreadUnlocksItsOwnLostHold) {
  Make({.use = GrantUse::kShared, .reentrant = true});
  const Waiter& first = Hold(Std(1));
  const Waiter& second = Acquire(Std(2));
  Pass(kLease);
  Expire();
  EXPECT_EQ(Unlock(2).hold, second.hold);
  EXPECT_EQ(Unlock(1).hold, first.hold);
}

TEST_F(RareStatesTest, LatchIsValidAlways) {
  Make({.use = GrantUse::kLatch});
  EXPECT_TRUE(state().Valid(0, now()));
  EXPECT_FALSE(state().KnowsWhy(Acquire()));
}

TEST_F(RareStatesTest, WriterReadsUnderItsWriteToken) {
  Make({.use = GrantUse::kShared});
  Waiter waiter;
  waiter.options = std::make_shared<LockOptions>();
  waiter.terms.lease = kLease;
  waiter.write_token = FencingToken(7);
  Effects effects;
  state().Acquire(waiter, now(), effects);
  Deliver(Fetch<AcquireRequest>(), Granted());
  EXPECT_EQ(waiter.token, FencingToken(7));
}

TEST_F(RareStatesTest, CachedGrantServesOnlyCallsThatAllowIt) {
  Hold(Cached());
  EXPECT_FALSE(TakeCachedNow()) << "it is in use";
  EXPECT_FALSE(LeaveCachedNow(2));
  EXPECT_TRUE(LeaveCachedNow());
  LockOptions longer = CachedOptions(), grace = longer, margin = longer, at_most = longer,
              told = longer, uncached = longer, lasting = longer, acks = longer, fsync = longer;
  longer.lease = 2 * kLease;
  grace.grace = kThird;
  margin.stop_margin = kThird;
  at_most.at_most = kThird;
  told.tell_if_wanted = true;
  uncached.cache_for = absl::ZeroDuration();
  lasting.cache_for = 2 * kLease;
  acks.acks.replicas = 1;
  fsync.acks.fsync = true;
  for (const LockOptions& options :
       {longer, grace, margin, at_most, told, uncached, lasting, acks, fsync}) {
    EXPECT_FALSE(TakeCachedNow(options));
  }
  EXPECT_TRUE(TakeCachedNow());
  EXPECT_TRUE(LeaveCachedNow());
  EXPECT_EQ(Acquire({.thread = 2, .face = Face::kStd, .manual = true}).state, State::kWaiting);
  EXPECT_TRUE(Fetch<ReleaseRequest>().acquire() != nullptr) << "it is asked for anew";
}

TEST_F(RareStatesTest, CachedGrantOfAWholeOrBoundedLeaseIsAskedForAnew) {
  for (const bool bounded : {false, true}) {
    Make({});
    state().OnSubscribed();
    Want want = Cached();
    want.whole = !bounded;
    if (bounded) want.at_most = absl::Minutes(1);
    Hold(want);
    EXPECT_EQ(Unlock(1).kind, Kind::kDone);
    EXPECT_FALSE(TakeCachedNow());
  }
}

TEST_F(RareStatesTest, CachedGrantWithoutTokensIsNotTaken) {
  Want want = Cached();
  want.face = Face::kStatus;
  EXPECT_EQ(Release(Hold(want).hold).kind, Kind::kDone);
  EXPECT_FALSE(TakeCachedNow());
}

TEST_F(RareStatesTest, SurplusOfCachedGrantsGoesBack) {
  state().OnTooManyCached(now());
  Hold(Cached());
  state().OnTooManyCached(now());
  EXPECT_TRUE(Quiet()) << "it is in use";
  Unlock(1);
  EXPECT_EQ(state().cached_until(), now() + kKept);
  state().OnTooManyCached(now());
  EXPECT_EQ(state().releasing(), 1U);
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  EXPECT_TRUE(state().vacant());
}

TEST_F(RareStatesTest, CachedGrantGoesBackAtAWaiterOfAnotherClient) {
  Hold(Cached());
  Unlock(1);
  Deliver(FetchDue<RenewRequest>(), HeldWith(1));
  EXPECT_TRUE(std::holds_alternative<ReleaseRequest>(Fetch<ReleaseRequest>().what));
}

TEST_F(RareStatesTest, NothingIsCachedAfterAForcedRelease) {
  Hold(Cached());
  state().OnForced(state().grant_id(), now());
  EXPECT_EQ(Unlock(1).kind, Kind::kUnconfirmed);
}

TEST_F(RareStatesTest, LateResultsOfAGrantByMessage) {
  for (const bool confirmed : {false, true}) {
    Make({});
    Waiter& waiter = Queue();
    const Request late = FetchDue<AcquireRequest>();
    DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease});
    ASSERT_EQ(waiter.state, State::kGranted);
    if (confirmed) {
      Pass(absl::Milliseconds(100));
      Deliver(Fetch<RenewRequest>(), HoldRef());
    }
    Deliver(late, confirmed ? Granted() : Busy());
    EXPECT_TRUE(Valid(waiter));
  }
}

TEST_F(RareStatesTest, FailedRenewalIsRepeatedAtOnceOnANewConnection) {
  const Waiter& waiter = Hold();
  const Request renewal = FetchDue<RenewRequest>();
  state().OnReconnected(now());
  Deliver(renewal, NotSent(absl::FailedPreconditionError("this client was refused")));
  EXPECT_TRUE(Valid(waiter)) << "the server did not refuse the renewal";
  Fetch<RenewRequest>();
}

TEST_F(RareStatesTest, WokenWaiterLeavesTheLockToTheFirst) {
  Make({}, /*retakes=*/1);
  const auto [holder, first] = Contended({.turn = kKept}, {.thread = 2, .turn = kKept});
  Waiter& second = Acquire({.thread = 3, .turn = kKept});
  Release(holder->hold);
  ASSERT_TRUE(Woken(*first));
  Wake(second);
  EXPECT_EQ(second.state, State::kWaiting);
  Wake(*first);
  EXPECT_EQ(first->state, State::kGranted);
}

TEST_F(RareStatesTest, QueuedClientContinuesAnUnfinishedScriptAtOnce) {
  Acquire();
  Result queued = Queued();
  queued.unfinished = true;
  Deliver(Fetch<AcquireRequest>(), queued);
  EXPECT_EQ(AcquireOf(Fetch<AcquireRequest>()).attempt, 2U);
}

TEST_F(RareStatesTest, ReadersGrantDoesNotProveThatTheLockWasTaken) {
  Make({.use = GrantUse::kShared});
  Hold();
  state().CheckHandoverAfter(kThird, /*unfinished=*/false, now());
  EXPECT_LE(state().next_request_at(), now() + kThird + kCheckGrace);
  Pass(kThird / 2);
  const Waiter& asks = Acquire({.thread = 2, .turn = absl::ZeroDuration()});
  ASSERT_EQ(asks.state, State::kWaiting) << "the server tells whether it may join";
  EXPECT_FALSE(state().KnowsWhy(asks));
}

TEST_F(RareStatesTest, ManualReadsAreNotShared) {
  Make({.use = GrantUse::kShared});
  Acquire({.manual = true});
  EXPECT_EQ(Acquire({.thread = 2, .manual = true}).state, State::kElsewhere);
}

TEST_F(RareStatesTest, CancelIsNoRelease) {
  Waiter& waiter = Queue();
  GiveUp(waiter);
  EXPECT_FALSE(state().NextRelease(now()));
  Fetch<CancelRequest>();
}

TEST_F(RareStatesTest, ReleasedHoldWasNotLost) {
  const Waiter& waiter = Hold();
  const std::shared_ptr<HoldState> view = waiter.view;
  EXPECT_TRUE(view->Lost(now() + kLease).stop_requested()) << "before the state is told the time";
  Release(waiter.hold);
  EXPECT_FALSE(view->Lost(now() + kLease).stop_requested());
}

TEST_F(RareStatesTest, StateInUseIsNeitherVacantNorReusable) {
  EXPECT_TRUE(state().vacant() && state().reusable());
  Waiter& waiter = Acquire();
  EXPECT_FALSE(state().vacant() || state().reusable());
  Deliver(Fetch<AcquireRequest>(), Granted());
  EXPECT_FALSE(state().vacant() || state().reusable());
  Release(waiter.hold);
  EXPECT_FALSE(state().vacant() || state().reusable()) << "a release is due";
  Fetch<ReleaseRequest>();
  EXPECT_TRUE(state().reusable() && !state().vacant()) << "it is in flight";
}

TEST_F(RareStatesTest, MisuseIsCounted) {
  state().OnMisuse();
  LockStats stats;
  state().AddCountsTo(stats);
  EXPECT_EQ(stats.misused, 1U);
}

TEST_F(RareStatesTest, RefusalForNowWasSentAndNotExecuted) {
  EXPECT_TRUE(Silence(/*may_have_executed=*/false).refused_for_now());
  for (const Result& other : {Silence(), NotSent(absl::UnavailableError("down")), Granted(),
                              Refusal(absl::PermissionDeniedError("no"))}) {
    EXPECT_FALSE(other.refused_for_now());
  }
}

TEST_F(RareStatesTest, PermitHasNoToken) {
  Make({.use = GrantUse::kPermit});
  Answered(Granted(0, kLease, 0));
  EXPECT_EQ(state().Current(1, now()).token, FencingToken());
}

TEST_F(RareStatesTest, CheckThatIsOverdueDoesNotReplaceOneAtOnce) {
  HandoverCheck check;
  base::Numbers numbers{kKey};
  check.Add(now());
  Pass(kThird);
  check.AddAtOnce(now(), base::Instant::Infinite());
  const auto first = check.Next(now(), numbers);
  ASSERT_TRUE(first);
  EXPECT_TRUE(check.due().is_infinite()) << "it is in flight";
  check.OnResult(Cancelled(), now());
  EXPECT_TRUE(check.none());
}

TEST_F(RareStatesTest, MessagesAboutOtherGrantsChangeNothing) {
  Effects effects;
  EXPECT_EQ(state().pending_acquire(), 0U);
  EXPECT_EQ(state().pending_permits(), 0U);
  state().OnVote(1, now());
  state().OnAskAgain(1, effects);
  EXPECT_FALSE(state().MustListen(Waiter(), false));
  Acquire({.permits = 2});
  EXPECT_EQ(state().pending_permits(), 2U);
  const Request request = Fetch<AcquireRequest>();
  EXPECT_EQ(state().pending_acquire(), request.grant);
  EXPECT_TRUE(state().IsWanted(request));
  Deliver(request, Queued());
  state().OnVote(request.grant + 1, now());
  EXPECT_TRUE(Quiet());
  state().OnVote(request.grant, now());
  const base::Instant asks = state().next_request_at();
  EXPECT_EQ(asks, now() + kVotesCome);
  Pass(absl::Milliseconds(1));
  state().OnVote(request.grant, now());
  EXPECT_EQ(state().next_request_at(), asks) << "the first vote counts";
  Request other = request;
  ++other.grant;
  EXPECT_FALSE(state().IsWanted(other));
}

TEST_F(RareStatesTest, UnsubscribedClientThatIsGrantedDoesNotPoll) {
  Waiter& waiter = Acquire();
  Result granted = Granted();
  granted.unsubscribed = true;
  Deliver(Fetch<AcquireRequest>(), granted);
  EXPECT_EQ(waiter.state, State::kGranted);
  EXPECT_TRUE(Quiet());
}

TEST_F(RareStatesTest, ReleaseWaitsWhileTheServerHasNoMemory) {
  const Waiter& waiter = Hold();
  Release(waiter.hold);
  EXPECT_FALSE(state().NextRelease(now())) << "its caller asks about it";
  Deliver(Fetch<ReleaseRequest>(), Refusal(absl::ResourceExhaustedError("OOM")));
  EXPECT_EQ(state().Outcome(waiter.hold).kind, Kind::kUnconfirmed);
  Deliver(Fetch<ReleaseRequest>(), Refusal(absl::ResourceExhaustedError("OOM")));
  EXPECT_FALSE(state().releases(now())) << "not before its next attempt";
  EXPECT_TRUE(Quiet());
  PassTo(state().next_request_at());
  state().Postpone(waiter.hold);
  EXPECT_EQ(state().releasing(), 1U);
  EXPECT_FALSE(state().reusable());
  state().Forget(waiter.hold);
  const auto again = state().NextRelease(now());
  ASSERT_TRUE(again);
  EXPECT_FALSE(state().NextRelease(now())) << "it is in flight";
  Deliver(*again, ReleasedThen());
  EXPECT_TRUE(state().reusable());
}

TEST_F(RareStatesTest, PermitsThatAreHeldAreCounted) {
  Make({.use = GrantUse::kPermit});
  const auto permits = [&] {
    LockStats stats;
    state().AddStateTo(stats);
    return stats.permits;
  };
  EXPECT_EQ(permits(), 0);
  const Waiter& waiter = Hold({.permits = 3});
  EXPECT_EQ(permits(), 3);
  Release(waiter.hold);
  EXPECT_EQ(permits(), 0);
}

TEST_F(RareStatesTest, NextWaiterListensWhenTheFirstGivesUp) {
  Make({.listens = true});
  Waiter& first = Acquire();
  EXPECT_FALSE(state().MustListen(first, false)) << "it may be granted";
  Waiter& second = Answered(Queued(), {.thread = 2});
  EXPECT_TRUE(Woken(first)) << "another thread has sent its request";
  EXPECT_FALSE(state().MustListen(second, false));
  EXPECT_TRUE(state().MustListen(first, false));
  EXPECT_FALSE(state().MustListen(first, true));
  GiveUp(first);
  EXPECT_TRUE(Woken(second));
  GiveUp(second);
  EXPECT_FALSE(state().MustListen(second, false));
}

TEST_F(RareStatesTest, NothingIsAskedForWhileTheProcessExits) {
  Make({.use = GrantUse::kShared});
  Acquire();
  EXPECT_FALSE(NextAtExit(now() + kLease));
  EXPECT_TRUE(Quiet());
}

// The outcome of a script's call.
struct ScriptOperationTest : LockStateTest {
  Operation::Action Resume(const Operation::Event& event = {}) {
    Effects effects;
    return operation_.Resume(event, now(), state(), effects);
  }
  ScriptOperation operation_{{.args = [](int) { return std::vector<std::string>(); },
                              .until = now() + absl::Seconds(10),
                              .command_timeout = absl::Seconds(1)}};
};

TEST_F(ScriptOperationTest, EndsWithItsObject) {
  EXPECT_EQ(Resume().kind, Operation::Action::Kind::kRun);
  const Result silence = NoResult();
  EXPECT_EQ(Resume({.result = &silence, .gone = true}).kind, Operation::Action::Kind::kDone);
  EXPECT_TRUE(absl::IsCancelled(operation_.outcome().status()));
  EXPECT_TRUE(operation_.ends_with_client());
}

TEST(Options, CallbackAlsoMeansThatAHoldIsTold) {
  LockOptions options;
  EXPECT_FALSE(TellsIfWanted(options));
  options.on_wanted = [](const auto&...) {};
  EXPECT_TRUE(TellsIfWanted(options));
}

}  // namespace
}  // namespace redlatch::internal
