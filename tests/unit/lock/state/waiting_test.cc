// Waiting for the server: queued, refused, out of time, unreachable.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

using LockStateWaitingTest = LockStateTest;

TEST_F(LockStateWaitingTest, TryFailsIfServerStaysSilent) {
  Waiter& waiter = Answered(Silence(), {.wait_limit = WaitLimit::kNone});
  GiveUp(waiter);
  EXPECT_EQ(waiter.state, State::kFailed);
  EXPECT_TRUE(absl::IsUnavailable(waiter.failure));
  EXPECT_EQ(Fetch<CancelRequest>().leaves_tombstone(), true);
}

TEST_F(LockStateWaitingTest, TryWhileQueuedAndUnreachableAsksAtOnce) {
  Queue();
  Pass(kThird);
  for (int i = 0; i < 5; ++i) {  // until the back-off is long
    Deliver(FetchDue<AcquireRequest>(), Silence());
  }
  EXPECT_TRUE(Quiet());
  Waiter& waiter = Acquire({.thread = 2, .wait_limit = WaitLimit::kNone});
  EXPECT_EQ(waiter.state, State::kWaiting) << "neither busy nor unreachable is known";
  Deliver(Fetch<AcquireRequest>(), Silence());
  EXPECT_EQ(waiter.state, State::kWaiting);
  GiveUp(waiter);
  EXPECT_EQ(waiter.state, State::kFailed);
}

TEST_F(LockStateWaitingTest, TryIsRefusedWhenPatientWaiterIsQueued) {
  Waiter& patient = Acquire();
  const auto [impatient, request] = Asked({.thread = 2, .wait_limit = WaitLimit::kNone});
  EXPECT_TRUE(AcquireOf(request).wait);
  Deliver(request, Queued());
  EXPECT_EQ(impatient.state, State::kBusy);
  EXPECT_EQ(patient.state, State::kWaiting);
}

TEST_F(LockStateWaitingTest, HeadAsksWhenHolderCouldExpire) {
  Answered(Queued(/*position=*/0, absl::Milliseconds(200)));
  EXPECT_EQ(state().next_request_at(), now() + absl::Milliseconds(201));
  Deliver(FetchDue<AcquireRequest>(), Queued(/*position=*/0, absl::ZeroDuration()));
  EXPECT_EQ(state().next_request_at(), now() + absl::Milliseconds(1));
}

TEST_F(LockStateWaitingTest, WaitersAskByTheirPlaceAndTheEndOfTheGrant) {
  struct Case {
    int64_t position;
    int ends_ms;
    absl::Duration asks_in = kThird;  // its heartbeat
  };
  std::vector<Case> cases = {{1, 0},   // unknown
                             {1, -1},  // never
                             {16, 200},
                             // The holder's claim passes to a client with a brief one, which dies.
                             {2, 2000, absl::Milliseconds(290)},
                             {2, 2001},
                             // A waiter without a position.
                             {-1, 200, absl::Milliseconds(201)},
                             {-1, 900, absl::Milliseconds(901)}};
  for (int i = 1; i < 16; ++i) cases.push_back({i, 200, absl::Milliseconds(201 + 20 * i)});
  for (const Case& each : cases) {
    SCOPED_TRACE(absl::StrCat(each.position, " ", each.ends_ms));
    Make({});
    Acquire();
    for (int i = 0; i < 3; ++i) {
      Deliver(Fetch<AcquireRequest>(), Queued(each.position, absl::Milliseconds(each.ends_ms)));
      EXPECT_EQ(state().next_request_at(), now() + each.asks_in);
      PassTo(state().next_request_at());
    }
  }
}

TEST_F(LockStateWaitingTest, WaitersNearHeadAskAgainDuringUnusuallyLongWait) {
  const auto [first, request] = Asked();
  Deliver(request, Queued());
  Pass(absl::Milliseconds(100));
  DeliverGrant(GrantOf(request));
  Deliver(FetchReleaseOf(first.hold), ReleasedThen());
  Answered(Queued(/*position=*/3));
  for (const int64_t wait_ms : {250, 250, 310, 495}) {
    EXPECT_EQ(state().next_request_at(), now() + absl::Milliseconds(wait_ms + 3 * 20));
    Deliver(FetchDue<AcquireRequest>(), Queued(/*position=*/3));
  }
  Deliver(FetchDue<AcquireRequest>(), Queued(/*position=*/16));
  EXPECT_EQ(state().next_request_at(), now() + kThird);
}

// Its thread may be one that a destructor joins, so it goes on waiting.
TEST_F(LockStateWaitingTest, LeavesQueueAtExitAndReturnsLater) {
  Waiter& waiter = Queue();
  const base::Instant resumes = now() + absl::Milliseconds(300);
  const std::optional<Request> left = NextAtExit(resumes);
  ASSERT_TRUE(left);
  EXPECT_TRUE(std::holds_alternative<CancelRequest>(left->what));
  Deliver(*left, Cancelled());
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(state().next_request_at(), resumes);
  PassTo(resumes);
  Deliver(Fetch<AcquireRequest>(), Granted());
  EXPECT_EQ(waiter.state, State::kGranted);
}

TEST_F(LockStateWaitingTest, ReleaseAtExitAsksForNothing) {
  Waiter& holder = Answered(Granted());
  Acquire();
  const base::Instant resumes = now() + absl::Milliseconds(300);
  EXPECT_FALSE(NextAtExit(resumes));
  EXPECT_FALSE(std::get<ReleaseRequest>(FetchReleaseOf(holder.hold).what).next);
  EXPECT_EQ(state().next_request_at(), resumes);
}

TEST_F(LockStateWaitingTest, HeadPollsForeignOwner) {
  Acquire();
  for (int i = 0; i < 20; ++i) {
    Deliver(Fetch<AcquireRequest>(), Queued(/*position=*/0, absl::Milliseconds(-1)));
    const absl::Duration pause = state().next_request_at() - now();
    EXPECT_GE(pause, absl::Milliseconds(50));
    EXPECT_LE(pause, absl::Milliseconds(500));
    PassTo(state().next_request_at());
  }
}

TEST_F(LockStateWaitingTest, SendsHeartbeatAtOnceAfterReconnect) {
  Queue();
  state().OnReconnected(now());
  Deliver(Fetch<AcquireRequest>(), Queued());
  EXPECT_EQ(state().next_request_at(), now() + kThird);
}

TEST_F(LockStateWaitingTest, ReconnectDuringAcquireSendsAnother) {
  const Request request = Asked().second;
  state().OnReconnected(now());
  EXPECT_TRUE(Quiet());
  Deliver(request, Queued());  // the grant may have been lost with the old connection
  Deliver(Fetch<AcquireRequest>(), Queued());
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateWaitingTest, RepeatsUnansweredAcquireWithBackoff) {
  Waiter& waiter = Acquire();
  absl::Duration last = absl::ZeroDuration();
  for (uint32_t attempt = 1; attempt <= 5; ++attempt) {
    const Request request = Fetch<AcquireRequest>();
    EXPECT_EQ(AcquireOf(request).attempt, attempt);
    Deliver(request, Silence());
    const absl::Duration pause = state().next_request_at() - now();
    EXPECT_GE(pause, last);
    last = pause;
    PassTo(state().next_request_at());
  }
  EXPECT_LE(last, absl::Seconds(1));
  Deliver(Fetch<AcquireRequest>(), Granted());
  EXPECT_EQ(waiter.state, State::kGranted);
}

TEST_F(LockStateWaitingTest, RefusalFailsAllWaiters) {
  Waiter& first = Acquire();
  Waiter& second = Answered(Refusal(absl::PermissionDeniedError("NOPERM")),
                            {.thread = 2, .wait_limit = WaitLimit::kBounded});
  for (const Waiter* waiter : {&first, &second}) {
    EXPECT_EQ(waiter->state, State::kFailed);
    EXPECT_TRUE(absl::IsPermissionDenied(waiter->failure));
    EXPECT_TRUE(Woken(*waiter));
  }
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateWaitingTest, FullMemoryFailsAcquireButNotHeartbeat) {
  Waiter& queued = Queue({.wait_limit = WaitLimit::kBounded});
  Deliver(FetchDue<AcquireRequest>(), Refusal(absl::ResourceExhaustedError("OOM")));
  EXPECT_EQ(queued.state, State::kWaiting);
  Deliver(FetchDue<AcquireRequest>(), Queued());
  GiveUp(queued);
  EXPECT_EQ(queued.state, State::kBusy);
  Deliver(Fetch<CancelRequest>(), Cancelled());
  Waiter& fresh = Answered(Refusal(absl::ResourceExhaustedError("OOM")));
  EXPECT_EQ(fresh.state, State::kFailed);
}

TEST_F(LockStateWaitingTest, EndlessWaitersFailOnceUnreachable) {
  Make({.unreachable_after = absl::Seconds(2)});
  Waiter& endless = Acquire();
  Waiter& bounded = Answered(Silence(), {.thread = 2, .wait_limit = WaitLimit::kBounded});
  const base::Instant since = now();
  while (endless.state == State::kWaiting) {
    Deliver(FetchDue<AcquireRequest>(), Silence());
  }
  EXPECT_EQ(endless.state, State::kFailed);
  EXPECT_TRUE(absl::IsUnavailable(endless.failure));
  EXPECT_GE(now() - since, absl::Seconds(2));
  EXPECT_LE(now() - since, absl::Seconds(3));
  EXPECT_EQ(bounded.state, State::kWaiting);
  GiveUp(bounded);
  EXPECT_EQ(bounded.state, State::kFailed) << "at its deadline: unreachable, not busy";
  EXPECT_TRUE(absl::IsUnavailable(bounded.failure));
}

TEST_F(LockStateWaitingTest, NewWaiterHasItsOwnUnreachableAfter) {
  Make({.unreachable_after = absl::Seconds(2)});
  Acquire({.wait_limit = WaitLimit::kBounded});
  base::Instant until = now() + absl::Seconds(5);
  while (now() < until) {
    Deliver(Fetch<AcquireRequest>(), Silence());
    PassTo(state().next_request_at());
  }
  Waiter& late = Answered(Silence(), {.thread = 2});
  EXPECT_EQ(late.state, State::kWaiting);
  Pass(absl::Seconds(2));
  Deliver(Fetch<AcquireRequest>(), Silence());
  EXPECT_EQ(late.state, State::kFailed);
}

TEST_F(LockStateWaitingTest, OutageBeginsWithFirstUnansweredCommand) {
  constexpr base::Instant kNever = base::Instant::Infinite();
  Make({.unreachable_after = absl::Seconds(2)});
  Waiter& endless = Acquire();
  Waiter& bounded = Acquire({.thread = 2, .wait_limit = WaitLimit::kBounded});
  EXPECT_EQ(state().GivesUpAt(endless, kNever), kNever) << "the server was not asked yet";
  const base::Instant sent = now();
  const Request acquire = Fetch<AcquireRequest>();
  EXPECT_EQ(state().GivesUpAt(endless, kNever), sent + absl::Seconds(2) + kAnswerGrace);
  Pass(absl::Seconds(1));
  Deliver(acquire, Silence());
  EXPECT_TRUE(Woken(endless)) << "so as to see when it must give up";
  EXPECT_FALSE(Woken(bounded));
  EXPECT_EQ(state().GivesUpAt(endless, kNever), sent + absl::Seconds(2));
  EXPECT_EQ(state().GivesUpAt(bounded, kNever), kNever);
  PassTo(sent + absl::Seconds(2));
  GiveUp(endless);
  EXPECT_EQ(endless.state, State::kFailed);
}

TEST_F(LockStateWaitingTest, EndlessWaiterIsNeverRefusedAsBusy) {
  Waiter& waiter = Queue();
  FetchDue<AcquireRequest>();
  GiveUp(waiter);
  EXPECT_EQ(waiter.state, State::kFailed);
  EXPECT_TRUE(absl::IsUnavailable(waiter.failure));
}

TEST_F(LockStateWaitingTest, ChangeOfTermsDoesNotEndOutage) {
  Make({.unreachable_after = absl::Seconds(2)});
  Waiter& first = Acquire({.wait_limit = WaitLimit::kBounded, .manual = true});
  Waiter& second = Answered(Silence(false), {.thread = 2});
  Pass(absl::Seconds(2));
  GiveUp(first);
  EXPECT_EQ(first.state, State::kFailed);
  Deliver(Fetch<AcquireRequest>(), Silence(false));
  EXPECT_EQ(second.state, State::kFailed);
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateWaitingTest, TimeoutBeforeAnyReplyIsNotBusy) {
  Waiter& waiter = Acquire({.wait_limit = WaitLimit::kBounded});
  Fetch<AcquireRequest>();
  Pass(absl::Milliseconds(20));
  GiveUp(waiter);
  EXPECT_EQ(waiter.state, State::kFailed);
  EXPECT_TRUE(absl::IsUnavailable(waiter.failure));
}

TEST_F(LockStateWaitingTest, TimeoutAfterLockWasSeenTakenIsBusy) {
  auto [holder, other] =
      Contended({.turn = absl::ZeroDuration()},
                {.thread = 2, .wait_limit = WaitLimit::kBounded, .turn = absl::ZeroDuration()});
  Pass(absl::Milliseconds(20));
  FetchReleaseOf(holder->hold);
  GiveUp(*other);
  EXPECT_EQ(other->state, State::kBusy);
}

TEST_F(LockStateWaitingTest, WaitersOfDestroyedLockAreStopped) {
  const int object = 0;
  Waiter& gone = Queue();
  gone.object = &object;
  Waiter& other = Acquire({.thread = 2});
  Effects effects;
  state().StopAll(&object, now(), effects);
  EXPECT_EQ(gone.state, State::kStopped);
  EXPECT_THAT(effects.wakes, ::testing::ElementsAre(&gone));
  EXPECT_EQ(other.state, State::kWaiting);
  EXPECT_TRUE(Quiet()) << "the other waiter keeps the pending acquire";
}

}  // namespace
}  // namespace redlatch::internal
