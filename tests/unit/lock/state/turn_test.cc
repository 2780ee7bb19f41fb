// A client's turn with a lock that others wait for: how long the grant is cached, and for which
// threads.
#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kTurn = absl::Milliseconds(16);
constexpr absl::Duration kTurnTick = absl::Nanoseconds(1);
constexpr absl::Duration kClaim = absl::Milliseconds(1500);

struct LockStateTurnTest : LockStateTest {
  static Want OfThread(uint64_t thread, absl::Duration turn = kTurn) {
    return {.thread = thread, .turn = turn};
  }

  // Other clients have the lock before this one.
  Waiter& Wait(absl::Duration turn = kTurn, absl::Duration lease = kClaim) {
    Waiter& waiter = Acquire(OfThread(1, turn));
    Deliver(Fetch<ReleaseRequest>(),
            ReleasedThen(AcquireQueued{.retry_after = kLease, .ticket = 7}));
    DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = lease});
    if (waiter.state != State::kGranted) ADD_FAILURE() << "not granted";
    return waiter;
  }
  void GoesBack(const Waiter& holder) {
    EXPECT_EQ(Release(holder.hold).kind, Kind::kUnconfirmed);
    state().Forget(holder.hold);
  }
  // The thread uses the lock until it could hardly come again within the turn.
  void EndTurn(const Waiter& holder) {
    Pass(kTurn / 2);
    EXPECT_EQ(Release(holder.hold).kind, Kind::kDone);
    Waiter& again = Acquire(OfThread(1));
    Pass(kTurn / 2 - kTurnTick);
    GoesBack(again);
  }
  // Two holds go back to the server, and one does not. Each time, the thread comes again at once.
  Waiter& ComesAgain(absl::Duration turn = kTurn) {
    Waiter& first = Answered(Granted(/*others=*/1), OfThread(1, turn));
    GoesBack(first);
    GoesBack(Wait(turn));
    EXPECT_EQ(Release(Wait(turn).hold).kind, Kind::kDone);
    return Acquire(OfThread(1, turn));
  }
};

TEST_F(LockStateTurnTest, TurnGoesOnWithoutMessages) {
  state().OnSubscribed();
  EXPECT_EQ(Release(ComesAgain().hold).kind, Kind::kDone);
  state().OnUnsubscribed(now());
  EXPECT_GT(state().cached_until(), now());
  EXPECT_EQ(Acquire(OfThread(1)).state, State::kGranted);
}

TEST_F(LockStateTurnTest, ReturningThreadNeedsNoServer) {
  uint64_t hold = ComesAgain().hold;
  FencingToken token = state().OfThread(1).token;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Release(hold).kind, Kind::kDone);
    EXPECT_TRUE(Quiet());
    Waiter& again = Acquire(OfThread(1));
    ASSERT_EQ(again.state, State::kGranted);
    EXPECT_GT(again.token, token);
    token = again.token;
    hold = again.hold;
  }
}

TEST_F(LockStateTurnTest, CachingEndsWithTurn) {
  Waiter& holder = ComesAgain();
  const base::Instant end = now() + kTurn;
  EXPECT_EQ(Release(holder.hold).kind, Kind::kDone);
  EXPECT_EQ(state().next_request_at(), end);
  PassTo(end);
  const Request release = Fetch<ReleaseRequest>();
  EXPECT_EQ(std::get<ReleaseRequest>(release.what).last_used, kToken + 1);
  Deliver(release, ReleasedThen());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateTurnTest, DoesNotPassOnAfterEnd) {
  Waiter& holder = ComesAgain();
  Waiter& other = Acquire(OfThread(2));
  Pass(kTurn - kTurnTick);
  EXPECT_EQ(Release(holder.hold).kind, Kind::kDone);
  EXPECT_EQ(other.state, State::kGranted) << "threads of the client take turns within its turn";
  Waiter& third = Acquire(OfThread(3));
  Pass(kTurnTick);
  EXPECT_EQ(Release(other.hold).kind, Kind::kUnconfirmed);
  EXPECT_EQ(third.state, State::kWaiting);
}

TEST_F(LockStateTurnTest, HandsOverAtOnceIfThreadsStayAway) {
  Waiter& holder = ComesAgain();
  Release(holder.hold);
  Pass(kTurn / 2);
  Waiter& late = Acquire(OfThread(1));
  EXPECT_EQ(late.state, State::kGranted) << "its turn is not over";
  GoesBack(late);  // it does not come back soon
  GoesBack(Wait());
  Release(Wait().hold);
  EXPECT_TRUE(Quiet()) << "it has come back soon twice";
}

TEST_F(LockStateTurnTest, HandsOverAtOnceIfThreadDoesNotComeBack) {
  Waiter& holder = ComesAgain();
  Release(holder.hold);
  Deliver(FetchDue<ReleaseRequest>(), ReleasedThen());
  Pass(kTurn);
  Waiter& late = Answered(Granted(/*others=*/1), OfThread(1));
  GoesBack(late);
}

// While another client has the lock, the system may let a thread of this one wait.
TEST_F(LockStateTurnTest, OneAbsenceAfterHandoverDoesNotCount) {
  EndTurn(ComesAgain());
  Pass(kTurn);
  Release(Wait().hold);
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateTurnTest, TwoAbsencesAfterHandoversCount) {
  Waiter& first = Answered(Granted(/*others=*/1), OfThread(1));
  GoesBack(first);
  GoesBack(Wait());
  Pass(kTurn);
  Waiter& second = Wait();
  Pass(kTurn / 2);
  GoesBack(second);
  Pass(kTurn);
  GoesBack(Wait());
}

// The call that releases may take longer than the thread stays away.
TEST_F(LockStateTurnTest, AbsenceBeginsWhenReleaseReturns) {
  EndTurn(ComesAgain());
  for (int i = 0; i < 2; ++i) {
    Pass(kTurn);
    state().OnLeft(now());
    EndTurn(Wait());
  }
  Release(Wait().hold);
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateTurnTest, LongSectionsGoBack) {
  Waiter& holder = ComesAgain();
  Pass(kTurn / 2 + kTurnTick);
  GoesBack(holder);
  Acquire(OfThread(1));
  EXPECT_FALSE(AcquireOf(Fetch<ReleaseRequest>()).is_brief());
}

TEST_F(LockStateTurnTest, LockWithoutContentionHasNoTurn) {
  for (int i = 0; i < 4; ++i) {
    const auto [waiter, acquire] = Asked(OfThread(1));
    EXPECT_EQ(AcquireOf(acquire).amount, 1);
    Deliver(acquire, Granted());
    GoesBack(waiter);
    Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  }
}

TEST_F(LockStateTurnTest, TryOnOtherTermsAsksServer) {
  Waiter& holder = ComesAgain();
  Release(holder.hold);
  Want other = OfThread(1);
  other.lease = 2 * kLease;
  other.wait_limit = WaitLimit::kNone;
  Waiter& tried = Acquire(other);
  EXPECT_EQ(tried.state, State::kWaiting) << "the lock is this client's own";
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen(AcquireBusy()));
  EXPECT_EQ(tried.state, State::kBusy);
}

// Otherwise the lock would stay taken for a whole lease if this process ends.
TEST_F(LockStateTurnTest, HoldWithWholeLeaseIsNotCached) {
  const uint64_t hold = ComesAgain().hold;
  Pass(ConfirmAfter(kClaim));
  Deliver(Fetch<RenewRequest>(), HoldRef());
  const Request renewal = FetchDue<RenewRequest>();
  EXPECT_EQ(renewal.lease, kLease) << "the turn is over";
  Deliver(renewal, HoldRef());
  EXPECT_EQ(Release(hold).kind, Kind::kUnconfirmed);
}

// The server may have executed the renewal, and its reply may be on the way.
TEST_F(LockStateTurnTest, HoldForWhichMoreIsAskedIsNotCached) {
  const uint64_t hold = ComesAgain(absl::Seconds(10)).hold;
  Pass(ConfirmAfter(kClaim));
  EXPECT_GT(Fetch<RenewRequest>().lease, kClaim);
  EXPECT_EQ(Release(hold).kind, Kind::kUnconfirmed);
}

// If its process dies meanwhile, the others do not wait for a whole lease.
TEST_F(LockStateTurnTest, HoldWhoseThreadDoesNotRunGetsALongerClaimFirst) {
  ComesAgain(absl::Seconds(10));
  Pass(ConfirmAfter(kClaim));
  const Request longer = Fetch<RenewRequest>();
  EXPECT_EQ(longer.lease, kShortestClaim);
  Deliver(longer, HoldRef());
  EXPECT_EQ(state().next_request_at(), now() + ConfirmAfter(kShortestClaim));
  EXPECT_EQ(FetchDue<RenewRequest>().lease, kLease) << "this section is long";
}

TEST_F(LockStateTurnTest, HoldThatOutlastsTurnGetsALongerClaimFirst) {
  ComesAgain(absl::Milliseconds(1));
  Pass(ConfirmAfter(kClaim));
  EXPECT_EQ(Fetch<RenewRequest>().lease, kShortestClaim);
}

TEST_F(LockStateTurnTest, GoesBackAtExit) {
  Release(ComesAgain().hold);
  const base::Instant resumes = now() + absl::Milliseconds(300);
  const std::optional<Request> request = NextAtExit(resumes);
  ASSERT_TRUE(request);
  EXPECT_TRUE(std::holds_alternative<ReleaseRequest>(request->what));
  EXPECT_FALSE(NextAtExit(resumes));
  EXPECT_TRUE(state().releases(now())) << "exit() waits for the answer";
  Deliver(*request, ReleasedThen());
  EXPECT_TRUE(state().idle());
}

// A destructor that runs after exit() began may use the lock, which then goes back at once.
TEST_F(LockStateTurnTest, HoldLastsThroughExitAndIsNotCached) {
  const uint64_t hold = ComesAgain().hold;
  EXPECT_FALSE(NextAtExit(now() + absl::Milliseconds(300)));
  EXPECT_EQ(Release(hold).kind, Kind::kUnconfirmed);
}

TEST_F(LockStateTurnTest, StaysClaimWhileHoldsAreShort) {
  uint64_t hold = ComesAgain(absl::Seconds(10)).hold;
  for (int i = 0; i < 5; ++i) {
    const base::Instant due = state().next_request_at();
    EXPECT_LE(due, now() + kClaim / 3);
    PassTo(due);
    EXPECT_EQ(Release(hold).kind, Kind::kDone);
    hold = Acquire(OfThread(1, absl::Seconds(10))).hold;
    const Request renewal = Fetch<RenewRequest>();
    EXPECT_EQ(renewal.lease, kClaim) << i;
    Deliver(renewal, HoldRef());
  }
  EXPECT_EQ(FetchDue<RenewRequest>().lease, kLease) << "this section is longer";
}

TEST_F(LockStateTurnTest, OtherLeasesAreWholeFromStart) {
  Want whole = OfThread(1), manual = OfThread(1), none = OfThread(1);
  whole.whole = manual.manual = true;
  none.turn = absl::ZeroDuration();
  for (const Want& want : {whole, manual, none}) {
    Make({});
    Acquire(want);
    EXPECT_FALSE(AcquireOf(Fetch<AcquireRequest>()).is_brief());
  }
}

// ---- Grants that do not exclude others.

struct ReadTurnTest : LockStateTurnTest {
  ReadTurnTest() { Make({.use = GrantUse::kShared, .reentrant = true}); }

  static Result HeldWith(int64_t others) { return {.what = StillHeld{.others = others}}; }
  // The reader waits for a writer of another client.
  Waiter& Wait() {
    const auto [waiter, acquire] = Asked(OfThread(1));
    Deliver(acquire, Queued());
    NewGrant news = GrantOf(acquire);
    news.lease = kClaim;
    DeliverGrant(news);
    EXPECT_EQ(waiter.state, State::kGranted);
    return waiter;
  }
  // The reader comes again and again until the turn is over. Returns it while it waits.
  Waiter& ReadOn() {
    for (int i = 0; i < 64; ++i) {
      Pass(kTurn / 32);
      Waiter& reader = Acquire(OfThread(1));
      if (reader.state == State::kWaiting) return reader;
      EXPECT_EQ(Release(reader.hold).kind, Kind::kDone);
    }
    ADD_FAILURE() << "the turn does not end";
    return Acquire(OfThread(1));
  }
  void Leave(const Waiter& reader) {
    GoesBack(reader);
    Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  }
  // Caches a grant that has just been made.
  void Cache() {
    Leave(Wait());
    Leave(Wait());
    EXPECT_EQ(Release(Wait().hold).kind, Kind::kDone);
    EXPECT_TRUE(Quiet());
  }
};

TEST_F(ReadTurnTest, WaitingWriterOrFailedQuestionEndsTurn) {
  for (const bool fails : {false, true}) {
    Make({.use = GrantUse::kShared, .reentrant = true});
    Cache();
    const Waiter& reader = ReadOn();
    Deliver(Fetch<RenewRequest>(), fails ? Silence() : HeldWith(1));
    EXPECT_EQ(reader.state, State::kWaiting);
    Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
    Deliver(Fetch<AcquireRequest>(), fails ? Granted() : Queued());
    EXPECT_EQ(reader.state, fails ? State::kGranted : State::kWaiting);
  }
}

TEST_F(ReadTurnTest, NoTurnWhileWriterIsKnownToWait) {
  Leave(Wait());
  Leave(Wait());
  Waiter& reader = Answered(Granted(/*others=*/1, kClaim), OfThread(1));
  Leave(reader);
}

TEST_F(ReadTurnTest, OneQuestionBeginsNextTurnAndFifteenForgetWriters) {
  Cache();
  for (int i = 0; i < 15; ++i) {
    const Waiter& reader = ReadOn();
    const Request question = Fetch<RenewRequest>();
    EXPECT_EQ(question.lease, kClaim) << "it is still cached as a claim";
    Deliver(question, HeldWith(0));
    EXPECT_EQ(reader.state, State::kGranted);
    if (i < 14) {
      EXPECT_EQ(Release(reader.hold).kind, Kind::kDone);
    } else {
      Leave(reader);
    }
  }
}

TEST_F(ReadTurnTest, WriteOfSameClientEndsTurn) {
  Cache();
  state().EndTurn(now());
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  EXPECT_TRUE(state().idle());
  Waiter& reader = Wait();
  state().EndTurn(now());
  EXPECT_TRUE(Valid(reader));
  Leave(reader);
}

// What readers and permits have in common.
struct SharedTurnTest : ReadTurnTest, ::testing::WithParamInterface<GrantUse> {
  SharedTurnTest() { Make({.use = GetParam(), .reentrant = reads()}); }
  static bool reads() { return GetParam() == GrantUse::kShared; }
};
INSTANTIATE_TEST_SUITE_P(OfEachUse, SharedTurnTest,
                         ::testing::Values(GrantUse::kShared, GrantUse::kPermit));

TEST_P(SharedTurnTest, CachingEndsWithTurnOrSoonAfter) {
  const base::Instant end = now() + kTurn + (reads() ? kTurn / 8 : absl::ZeroDuration());
  Cache();
  EXPECT_EQ(state().next_request_at(), end);
  Deliver(FetchDue<ReleaseRequest>(), ReleasedThen());
  EXPECT_TRUE(state().idle());
}

TEST_P(SharedTurnTest, UncontendedGrantGoesBackAtOnce) {
  for (int i = 0; i < 5; ++i) {
    const auto [waiter, acquire] = Asked(OfThread(1));
    EXPECT_FALSE(AcquireOf(acquire).is_brief());
    Deliver(acquire, Granted());
    Leave(waiter);
  }
}

TEST_P(SharedTurnTest, ReturningThreadNeedsNoServer) {
  Cache();
  for (int i = 0; i < 100; ++i) {
    const Waiter& again = Acquire(OfThread(1));
    EXPECT_EQ(again.state, State::kGranted);
    if (reads()) {
      const Waiter& beside = Acquire(OfThread(2));
      EXPECT_EQ(beside.state, State::kGranted);
      EXPECT_EQ(Release(beside.hold).kind, Kind::kDone);
    }
    EXPECT_EQ(Release(again.hold).kind, Kind::kDone);
    EXPECT_TRUE(Quiet());
  }
}

struct PermitTurnTest : ReadTurnTest {
  PermitTurnTest() { Make({.use = GrantUse::kPermit}); }
};

TEST_F(PermitTurnTest, OtherNumberOfPermitsEndsTurn) {
  Cache();
  Want several = OfThread(1);
  several.permits = 2;
  Waiter& waiter = Acquire(several);
  EXPECT_EQ(waiter.state, State::kWaiting);
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  const Request acquire = Fetch<AcquireRequest>();
  EXPECT_EQ(AcquireOf(acquire).amount, 2);
  Deliver(acquire, Granted());
  EXPECT_EQ(waiter.state, State::kGranted);
}

TEST_F(PermitTurnTest, GrantByReplyIsClaim) {
  Leave(Wait());
  Leave(Wait());
  const auto [waiter, acquire] = Asked(OfThread(1));
  EXPECT_TRUE(AcquireOf(acquire).is_brief());
  Deliver(acquire, Granted(0, kClaim));
  EXPECT_EQ(Release(waiter.hold).kind, Kind::kDone);
}

}  // namespace
}  // namespace redlatch::internal
