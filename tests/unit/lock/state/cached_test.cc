// Cached grants: taken again, recalled, given back.

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kKeep = absl::Seconds(2);
constexpr absl::Duration kTick = absl::Nanoseconds(1);

struct LockStateCachedTest : LockStateTest {
  LockStateCachedTest() { state().OnSubscribed(); }
  void MakeSubscribed(const LockState::Config& config) {
    Make(config);
    state().OnSubscribed();
  }

  static Want Cacheable(uint64_t thread = 1, Face face = Face::kStd) {
    return {.thread = thread, .face = face, .turn = absl::ZeroDuration(), .cache_for = kKeep};
  }
  static std::shared_ptr<const LockOptions> Options() {
    return std::make_shared<LockOptions>(LockOptions{.lease = kLease, .cache_for = kKeep});
  }
  // lock() and unlock(); then the grant is cached.
  GrantId Cache() {
    Hold(Cacheable());
    const GrantId grant = state().grant_id();
    EXPECT_EQ(Unlock(1).kind, Kind::kDone);
    EXPECT_TRUE(state().recallable());
    return grant;
  }
  // The same with a lease that used the only token, so that more are requested.
  Request CacheWithoutTokens() {
    EXPECT_EQ(Release(Hold(Cacheable(1, Face::kStatus)).hold).kind, Kind::kDone);
    return Fetch<RenewRequest>();
  }
  static Result HeldWith(uint64_t last_token, int64_t waiters = 0) {
    return {.what = StillHeld{.others = waiters, .last_token = last_token}};
  }
  bool TakeCachedNow(uint64_t thread = 1) {
    return state().TakeCachedNow(thread, Options(), now());
  }
  bool LeaveCachedNow(uint64_t thread = 1) {
    std::shared_ptr<const LockOptions> ended;
    const bool left = state().LeaveCachedNow(thread, now(), ended);
    EXPECT_EQ(left, ended != nullptr);
    return left;
  }
};

TEST_F(LockStateCachedTest, IsTakenAgainWithoutServer) {
  Cache();
  for (int i = 0; i < 100; ++i) {
    const uint64_t thread = 1 + i % 2;
    const Waiter& again = Acquire(Cacheable(thread));
    ASSERT_EQ(again.state, State::kGranted);
    EXPECT_EQ(again.token, FencingToken()) << "no thread has asked for it";
    EXPECT_EQ(Unlock(thread).kind, Kind::kDone);
    EXPECT_TRUE(Quiet());
  }
}

// Other threads may join or take the grant before it is cached.
TEST_F(LockStateCachedTest, RecallIsReadAtOnceFromTheGrantOn) {
  Hold(Cacheable());
  EXPECT_TRUE(state().recallable());
  Make({});
  state().OnSubscribed();
  Answered(Granted(/*others=*/1), Cacheable());
  EXPECT_FALSE(state().recallable()) << "it will not be cached";
}

TEST_F(LockStateCachedTest, GoesBackAfterCacheFor) {
  Cache();
  Deliver(FetchDue<RenewRequest>(), HeldWith(0));
  Acquire(Cacheable());
  Unlock(1);
  const base::Instant end = now() + kKeep;
  Deliver(FetchDue<RenewRequest>(), HeldWith(0));
  PassTo(end - kTick);
  EXPECT_TRUE(state().recallable());
  PassTo(end);
  EXPECT_LE(state().next_request_at(), end);
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  EXPECT_FALSE(state().recallable());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateCachedTest, UnusedGrantGoesBackAtRecall) {
  const GrantId grant = Cache();
  Recall(grant);
  const std::optional<Request> release = state().NextRelease(now());
  ASSERT_TRUE(release.has_value());
  EXPECT_EQ(release->grant, grant);
  Deliver(*release, ReleasedThen());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateCachedTest, RecallThatOvertakesItsGrantEndsCaching) {
  Acquire(Cacheable());
  const Request request = Fetch<AcquireRequest>();
  Recall(state().grant_id());
  Deliver(request, Granted());
  EXPECT_EQ(Unlock(1).kind, Kind::kDone) << "the server will tell";
  Deliver(Fetch<RenewRequest>(), HeldWith(0, 1));
  Fetch<ReleaseRequest>();
}

TEST_F(LockStateCachedTest, UnusedGrantGoesBackIfUnsubscribed) {
  Cache();
  state().OnUnsubscribed(now());
  Fetch<ReleaseRequest>();
}

TEST_F(LockStateCachedTest, UsedGrantGoesBackIfUnsubscribed) {
  Hold(Cacheable());
  state().OnUnsubscribed(now());
  EXPECT_TRUE(Quiet());
  EXPECT_FALSE(LeaveCachedNow()) << "no message could recall it";
  EXPECT_EQ(Unlock(1).kind, Kind::kUnconfirmed);
}

TEST_F(LockStateCachedTest, ClaimIsCachedOnceConfirmed) {
  const Want want = Cacheable();
  Queue(want);
  Pass(absl::Milliseconds(1));
  DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease / 2});
  EXPECT_EQ(Unlock(1).kind, Kind::kUnconfirmed) << "the previous owner may want it back";
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());

  Queue(want);
  DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease / 2});
  Pass(absl::Milliseconds(100));
  Deliver(Fetch<RenewRequest>(), HeldWith(0));
  EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateCachedTest, FastTakeRefusesLostGrant) {
  Cache();
  PassTo(state().next_expiry());
  EXPECT_FALSE(TakeCachedNow());
  Expire();
  EXPECT_TRUE(effects().lost.empty());

  MakeSubscribed({});
  Cache();
  ASSERT_TRUE(TakeCachedNow());
  PassTo(state().next_expiry());
  EXPECT_FALSE(LeaveCachedNow());
}

TEST_F(LockStateCachedTest, FastLeaveRequiresPlainHold) {
  Hold(Cacheable(1, Face::kStatus));
  EXPECT_FALSE(LeaveCachedNow()) << "a lease";
  MakeSubscribed({.reentrant = true});
  Hold(Cacheable());
  ASSERT_TRUE(state().Reenter(1, Face::kStd, false, now()).has_value());
  EXPECT_FALSE(LeaveCachedNow()) << "it is entered twice";
  EXPECT_TRUE(state().UnlockInner(1));
  EXPECT_NE(state().Current(1, now()).view, nullptr);
  EXPECT_FALSE(LeaveCachedNow()) << "the user has a view of it";
}

TEST_F(LockStateCachedTest, DrawsTokenOncePerHoldAndNotAfterIt) {
  Hold(Cacheable());
  EXPECT_EQ(state().Current(2, now()).hold, 0U);
  EXPECT_EQ(state().OfThread(1).token, FencingToken());
  EXPECT_EQ(state().Current(1, now()).token, FencingToken(kToken));
  EXPECT_EQ(state().Current(1, now()).token, FencingToken(kToken)) << "it has one";
  EXPECT_EQ(state().OfThread(1).token, FencingToken(kToken));
  Unlock(1);
  EXPECT_EQ(state().Current(1, now()).hold, 0U);

  MakeSubscribed({});
  Hold(Cacheable());
  Pass(kValid);
  EXPECT_EQ(state().Current(1, now()).token, FencingToken()) << "its lease is over";
  EXPECT_TRUE(Quiet()) << "it is not renewed";
}

TEST_F(LockStateCachedTest, LaterTokensWaitForClock) {
  const base::Instant reserved = now();
  Deliver(CacheWithoutTokens(), HeldWith(kToken + 1'000'000));
  for (int i = 1; i <= 10; ++i) {
    const Waiter& again = Acquire(Cacheable(1, Face::kStatus));
    EXPECT_EQ(again.token, FencingToken(kToken + i));
    EXPECT_EQ(again.not_before, reserved + absl::Microseconds(i));
    EXPECT_EQ(Release(again.hold).kind, Kind::kDone);
  }
  EXPECT_TRUE(Quiet());
}

// The server may have reserved tokens up to the end of the grant, and the client does not know.
TEST_F(LockStateCachedTest, UnansweredRenewalHidesLastToken) {
  const auto released = [&] {
    Recall(state().grant_id());
    const ReleaseRequest release = As<ReleaseRequest>(Fetch<ReleaseRequest>());
    EXPECT_EQ(release.last_used, kToken);
    return release.last_reserved;
  };
  CacheWithoutTokens();
  EXPECT_EQ(released(), 0);
  MakeSubscribed({});
  Deliver(CacheWithoutTokens(), Silence());
  EXPECT_EQ(released(), 0);
  MakeSubscribed({});
  Deliver(CacheWithoutTokens(), HeldWith(kToken + 1'000'000));
  EXPECT_EQ(released(), kToken + 1'000'000);
}

TEST_F(LockStateCachedTest, ThreadWaitsForTokensInFlight) {
  const Request renewal = CacheWithoutTokens();
  Waiter& lease = Acquire(Cacheable(1, Face::kStatus));
  EXPECT_EQ(lease.state, State::kWaiting);
  EXPECT_FALSE(TakeCachedNow()) << "other waiters are first";
  Deliver(renewal, HeldWith(kToken + 1'000'000));
  EXPECT_EQ(lease.state, State::kGranted);
  EXPECT_EQ(lease.token, FencingToken(kToken + 1));
}

TEST_F(LockStateCachedTest, ThreadAsksServerIfNoTokensCome) {
  for (const Result& result : {HeldWith(0), Silence(), NotHeld()}) {
    MakeSubscribed({});
    const Request renewal = CacheWithoutTokens();
    Waiter& lease = Acquire(Cacheable(1, Face::kStatus));
    Deliver(renewal, result);
    EXPECT_EQ(lease.state, State::kWaiting);
    const Request release = Fetch<ReleaseRequest>();
    ASSERT_NE(release.acquire(), nullptr);
    Deliver(release, ReleasedThen(AcquireGranted{.token = kToken + 9, .lease = kLease}));
    EXPECT_EQ(lease.state, State::kGranted);
  }
}

TEST_F(LockStateCachedTest, RequestsTokensBeforeTheyRunOut) {
  Deliver(CacheWithoutTokens(), HeldWith(kToken + 2050));
  Release(Acquire(Cacheable(1, Face::kStatus)).hold);
  EXPECT_TRUE(Quiet());
  Release(Acquire(Cacheable(1, Face::kStatus)).hold);
  Release(Acquire(Cacheable(1, Face::kStatus)).hold);
  Fetch<RenewRequest>();
}

TEST_F(LockStateCachedTest, TriesRecallCachedGrantOncePerSecond) {
  Want tries = Cacheable();
  tries.wait_limit = WaitLimit::kNone;
  const auto calls = [&] {
    const Request acquire = Asked(tries).second;
    Deliver(acquire, Busy());
    EXPECT_FALSE(AcquireOf(acquire).wait);
    return AcquireOf(acquire).recalls;
  };
  EXPECT_TRUE(calls());
  EXPECT_FALSE(calls());
  Pass(absl::Seconds(1));
  EXPECT_TRUE(calls());
  Acquire(Cacheable());
  EXPECT_FALSE(AcquireOf(Fetch<AcquireRequest>()).recalls)
      << "a queued waiter recalls by its place in the queue";
}

TEST_F(LockStateCachedTest, IsNotCachedSoonAfterTry) {
  Recall(Cache(), /*tried=*/true);
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  const base::Instant tried = now();
  for (; now() < tried + absl::Seconds(2); Pass(absl::Milliseconds(500))) {
    Hold(Cacheable());
    EXPECT_FALSE(LeaveCachedNow());
    EXPECT_EQ(Unlock(1).kind, Kind::kUnconfirmed) << now() - tried;
    Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  }
  Pass(absl::Seconds(1));
  Cache();
}

// A turn, in which a client caches a lock that others want.
struct LockStateCachedTurnTest : LockStateCachedTest {
  static constexpr absl::Duration kTurn = absl::Milliseconds(16);

  static Want WithTurn() {
    Want want = Cacheable();
    want.turn = kTurn;
    return want;
  }
  // A thread waits, gets the lock, and comes again soon, twice; then the grant is cached.
  void CacheInTurn() {
    Answered(Granted(/*others=*/1), WithTurn());
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(Unlock(1).kind, Kind::kUnconfirmed);
      Acquire(WithTurn());
      Deliver(Fetch<ReleaseRequest>(),
              ReleasedThen(AcquireQueued{.retry_after = kLease, .ticket = 7}));
      DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease});
    }
    EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  }
};

TEST_F(LockStateCachedTurnTest, RecallWaitsForEndOfTurn) {
  CacheInTurn();
  const base::Instant end = now() + kTurn;
  Recall(state().grant_id());
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(state().next_request_at(), end);
  PassTo(end);
  Fetch<ReleaseRequest>();
}

// Readers share a cached grant.
struct LockStateCachedReadsTest : LockStateCachedTest {
  LockStateCachedReadsTest() { MakeSubscribed({.use = GrantUse::kShared, .reentrant = true}); }
};

TEST_F(LockStateCachedReadsTest, AreTakenAgainWithoutServer) {
  Cache();
  for (uint64_t thread = 1; thread <= 3; ++thread) {
    EXPECT_EQ(Acquire(Cacheable(thread)).state, State::kGranted) << "the turn is zero";
  }
  Pass(absl::Milliseconds(100));
  EXPECT_EQ(Acquire(Cacheable(4)).state, State::kGranted);
  for (uint64_t thread = 1; thread <= 4; ++thread) {
    EXPECT_EQ(Unlock(thread).kind, Kind::kDone);
  }
  EXPECT_TRUE(Quiet());
  ASSERT_TRUE(TakeCachedNow(1));
  ASSERT_TRUE(TakeCachedNow(2)) << "beside the other";
  EXPECT_FALSE(TakeCachedNow(2)) << "it reads already";
  EXPECT_NE(state().OfThread(2).token, FencingToken()) << "the last write's";
  EXPECT_EQ(state().OfThread(2).token, state().OfThread(1).token);
  EXPECT_FALSE(LeaveCachedNow(3)) << "it does not read";
  EXPECT_TRUE(LeaveCachedNow(1));
  EXPECT_TRUE(state().OfThread(2).depth > 0);
  EXPECT_EQ(state().cached_until(), base::Instant()) << "the other reads on";
  EXPECT_TRUE(LeaveCachedNow(2));
  EXPECT_EQ(state().cached_until(), now() + kKeep);
  EXPECT_TRUE(Quiet());
}

// Threads join a cached read for as long as they join any other. Otherwise caching would make short
// reads slower.
TEST_F(LockStateCachedReadsTest, AreJoinedInTurnDespiteRecall) {
  Want in_window = Cacheable(2);
  in_window.turn = absl::Milliseconds(5);
  Hold(Cacheable(1));
  Pass(absl::Milliseconds(2));
  Recall(state().grant_id());
  EXPECT_EQ(Acquire(in_window).state, State::kGranted);
  Pass(absl::Milliseconds(3));
  in_window.thread = 3;
  EXPECT_EQ(Acquire(in_window).state, State::kElsewhere);
  EXPECT_TRUE(Quiet()) << "the client need not ask if others wait";
  EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  EXPECT_EQ(Unlock(2).kind, Kind::kUnconfirmed);
}

}  // namespace
}  // namespace redlatch::internal
