// A grant that stays with its client although no thread has it, until another client asks for it.

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kKeep = absl::Seconds(2);
constexpr absl::Duration kTick = absl::Nanoseconds(1);

class LockStateCachedTest : public LockStateTest {
 protected:
  LockStateCachedTest() { state().OnSubscribed(); }

  static Want Kept(uint64_t thread = 1, Face face = Face::kStd) {
    return {.thread = thread, .face = face, .turn = absl::ZeroDuration(), .cache_for = kKeep};
  }
  static std::shared_ptr<const LockOptions> Options() {
    return std::make_shared<LockOptions>(LockOptions{.lease = kLease, .cache_for = kKeep});
  }
  // A lock() and its unlock(): now it rests.
  GrantId Cache() {
    Hold(Kept());
    const GrantId grant = state().grant_id();
    EXPECT_EQ(Unlock(1).kind, Kind::kDone);
    EXPECT_TRUE(state().recallable());
    return grant;
  }
  // The same, of a lease: it drew the only token there was, and more are asked for.
  Request RestWithoutTokens() {
    EXPECT_EQ(Release(Hold(Kept(1, Face::kStatus)).hold).kind, Kind::kDone);
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
    const Waiter& again = Acquire(Kept(thread));
    ASSERT_EQ(again.state, State::kGranted);
    EXPECT_EQ(again.token, FencingToken()) << "nobody has asked for it";
    EXPECT_EQ(Unlock(thread).kind, Kind::kDone);
    EXPECT_TRUE(Quiet());
  }
}

TEST_F(LockStateCachedTest, GoesBackAfterCacheFor) {
  Cache();
  Pass(kThird);
  Hear(Fetch<RenewRequest>(), HeldWith(0));
  Acquire(Kept());
  Unlock(1);
  const base::Instant end = now() + kKeep;
  Pass(kThird);
  Hear(Fetch<RenewRequest>(), HeldWith(0));
  PassTo(end - kTick);
  EXPECT_TRUE(state().recallable());
  PassTo(end);
  EXPECT_LE(state().next_request_at(), end);
  Hear(Fetch<ReleaseRequest>(), ReleasedThen());
  EXPECT_FALSE(state().recallable());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateCachedTest, UnusedGrantGoesBackAtRecall) {
  const GrantId grant = Cache();
  state().OnRecall(grant, now());
  const std::optional<Request> release = state().NextRelease(now());
  ASSERT_TRUE(release.has_value());
  EXPECT_EQ(release->grant, grant);
  Hear(*release, ReleasedThen());
  EXPECT_TRUE(state().idle());
}

TEST_F(LockStateCachedTest, UnusedGrantGoesBackIfUnsubscribed) {
  Cache();
  state().OnUnsubscribed(now());
  Fetch<ReleaseRequest>();
}

TEST_F(LockStateCachedTest, UsedGrantGoesBackAtReleaseIfUnsubscribed) {
  Hold(Kept());
  state().OnUnsubscribed(now());
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(Unlock(1).kind, Kind::kUnderWay);
}

TEST_F(LockStateCachedTest, ClaimIsCachedOnceConfirmed) {
  const Want want = Kept();
  Queue(want);
  Pass(absl::Milliseconds(1));
  HearGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease / 2});
  EXPECT_EQ(Unlock(1).kind, Kind::kUnderWay) << "whoever gave it may want it back";
  Hear(Fetch<ReleaseRequest>(), ReleasedThen());

  Queue(want);
  HearGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease / 2});
  Pass(absl::Milliseconds(100));
  Hear(Fetch<RenewRequest>(), HeldWith(0));
  EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  EXPECT_TRUE(Quiet());
}

TEST_F(LockStateCachedTest, FastTakeRefusesOtherTerms) {
  Cache();
  LockOptions options = *Options();
  options.lease = 2 * kLease;
  EXPECT_FALSE(state().TakeCachedNow(1, std::make_shared<LockOptions>(options), now()));
  options = *Options();
  options.cache_for = absl::ZeroDuration();
  EXPECT_FALSE(state().TakeCachedNow(1, std::make_shared<LockOptions>(options), now()));
  options = *Options();
  options.acks.fsync = true;
  EXPECT_FALSE(state().TakeCachedNow(1, std::make_shared<LockOptions>(options), now()));
  options = *Options();
  options.acks.replicas = 1;
  EXPECT_FALSE(state().TakeCachedNow(1, std::make_shared<LockOptions>(options), now()));
  EXPECT_TRUE(TakeCachedNow());
}

TEST_F(LockStateCachedTest, FastTakeRefusesLostGrant) {
  Cache();
  PassTo(state().next_expiry());
  EXPECT_FALSE(TakeCachedNow());
  Expire();
  EXPECT_TRUE(effects().losses.empty());

  Make({});
  state().OnSubscribed();
  Cache();
  ASSERT_TRUE(TakeCachedNow());
  PassTo(state().next_expiry());
  EXPECT_FALSE(LeaveCachedNow());
}

TEST_F(LockStateCachedTest, FastLeaveRequiresPlainHold) {
  Hold(Kept(1, Face::kStatus));
  EXPECT_FALSE(LeaveCachedNow()) << "a lease";
  Make({.reentrant = true});
  state().OnSubscribed();
  Hold(Kept());
  ASSERT_TRUE(state().Reenter(1, Face::kStd, false, now()).has_value());
  EXPECT_FALSE(LeaveCachedNow()) << "it is entered twice";
  EXPECT_TRUE(state().ReleaseInner(1, Face::kStd));
  state().ViewOf(1);
  EXPECT_FALSE(LeaveCachedNow()) << "somebody looks at it";
}

TEST_F(LockStateCachedTest, DrawsTokenOncePerHoldAndNotAfterIt) {
  Hold(Kept());
  EXPECT_FALSE(state().Draw(2, now()).has_value()) << "it has no hold";
  const auto drawn = state().Draw(1, now());
  ASSERT_TRUE(drawn.has_value());
  EXPECT_EQ(drawn->token, FencingToken(kToken));
  EXPECT_FALSE(state().Draw(1, now()).has_value()) << "it has one";
  EXPECT_EQ(state().OfThread(1).token, FencingToken(kToken));
  Unlock(1);
  EXPECT_FALSE(state().Draw(1, now()).has_value());

  Make({});
  state().OnSubscribed();
  Hold(Kept());
  Pass(kValid);
  EXPECT_FALSE(state().Draw(1, now()).has_value()) << "its lease is over";
}

TEST_F(LockStateCachedTest, LaterTokensAreValidOnlyOnceClockReachesThem) {
  const base::Instant reserved = now();
  Hear(RestWithoutTokens(), HeldWith(kToken + 1'000'000));
  for (int i = 1; i <= 10; ++i) {
    const Waiter& again = Acquire(Kept(1, Face::kStatus));
    EXPECT_EQ(again.token, FencingToken(kToken + i));
    EXPECT_EQ(again.not_before, reserved + absl::Microseconds(i));
    EXPECT_EQ(Release(again.hold).kind, Kind::kDone);
  }
  EXPECT_TRUE(Quiet());
}

// The server may have reserved tokens for it, up to its end, of which nobody has heard.
TEST_F(LockStateCachedTest, ReleaseOmitsLastTokenIfRenewalIsUnanswered) {
  const auto released = [&] {
    state().OnRecall(state().grant_id(), now());
    const ReleaseRequest release = As<ReleaseRequest>(Fetch<ReleaseRequest>());
    EXPECT_EQ(release.last_used, kToken);
    return release.last_reserved;
  };
  RestWithoutTokens();
  EXPECT_EQ(released(), 0);
  Make({});
  state().OnSubscribed();
  Hear(RestWithoutTokens(), Silence());
  EXPECT_EQ(released(), 0);
  Make({});
  state().OnSubscribed();
  Hear(RestWithoutTokens(), HeldWith(kToken + 1'000'000));
  EXPECT_EQ(released(), kToken + 1'000'000);
}

TEST_F(LockStateCachedTest, ThreadWaitsForTokensInFlight) {
  const Request renewal = RestWithoutTokens();
  Waiter& lease = Acquire(Kept(1, Face::kStatus));
  EXPECT_EQ(lease.state, State::kWaiting);
  EXPECT_FALSE(TakeCachedNow()) << "others are before it";
  Hear(renewal, HeldWith(kToken + 1'000'000));
  EXPECT_EQ(lease.state, State::kGranted);
  EXPECT_EQ(lease.token, FencingToken(kToken + 1));
}

TEST_F(LockStateCachedTest, ThreadAsksServerIfNoTokensCome) {
  for (const Result& result : {HeldWith(0), Silence(), NotHeld()}) {
    Make({});
    state().OnSubscribed();
    const Request renewal = RestWithoutTokens();
    Waiter& lease = Acquire(Kept(1, Face::kStatus));
    Hear(renewal, result);
    EXPECT_EQ(lease.state, State::kWaiting);
    const Request release = Fetch<ReleaseRequest>();
    ASSERT_NE(release.acquire(), nullptr);
    Hear(release, ReleasedThen(AcquireGranted{.token = kToken + 9, .lease = kLease}));
    EXPECT_EQ(lease.state, State::kGranted);
  }
}

TEST_F(LockStateCachedTest, RequestsTokensBeforeTheyRunOut) {
  Hear(RestWithoutTokens(), HeldWith(kToken + 2050));
  Release(Acquire(Kept(1, Face::kStatus)).hold);
  EXPECT_TRUE(Quiet());
  Release(Acquire(Kept(1, Face::kStatus)).hold);
  Release(Acquire(Kept(1, Face::kStatus)).hold);
  Fetch<RenewRequest>();
}

TEST_F(LockStateCachedTest, TriesRecallCachedGrantOncePerSecond) {
  Want tries = Kept();
  tries.patience = Patience::kNone;
  const auto calls = [&] {
    Acquire(tries);
    const Request acquire = Fetch<AcquireRequest>();
    Hear(acquire, Busy());
    EXPECT_FALSE(BidOf(acquire).wait);
    return BidOf(acquire).calls;
  };
  EXPECT_TRUE(calls());
  EXPECT_FALSE(calls());
  Pass(absl::Seconds(1));
  EXPECT_TRUE(calls());
  Acquire(Kept());
  EXPECT_FALSE(BidOf(Fetch<AcquireRequest>()).calls) << "who is queued calls by that";
}

TEST_F(LockStateCachedTest, IsNotCachedSoonAfterTry) {
  state().OnRecall(Cache(), now(), /*tried=*/true);
  Hear(Fetch<ReleaseRequest>(), ReleasedThen());
  const base::Instant tried = now();
  for (; now() < tried + absl::Seconds(2); Pass(absl::Milliseconds(500))) {
    Hold(Kept());
    EXPECT_FALSE(LeaveCachedNow());
    EXPECT_EQ(Unlock(1).kind, Kind::kUnderWay) << now() - tried;
    Hear(Fetch<ReleaseRequest>(), ReleasedThen());
  }
  Pass(absl::Seconds(1));
  Cache();
}

// A turn, in which a client keeps what others want.
class LockStateCachedTurnTest : public LockStateCachedTest {
 protected:
  static constexpr absl::Duration kTurn = absl::Milliseconds(16);

  static Want WithTurn() {
    Want want = Kept();
    want.turn = kTurn;
    return want;
  }
  // It comes again at once, to a lock that it had to wait for; and it rests.
  void RestInTurn() {
    Acquire(WithTurn());
    Hear(Fetch<AcquireRequest>(), Granted(/*others=*/1));
    Unlock(1);
    Acquire(WithTurn());
    Hear(Fetch<ReleaseRequest>(), ReleasedThen(AcquireQueued{.retry_after = kLease, .ticket = 7}));
    HearGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease});
    EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  }
};

TEST_F(LockStateCachedTurnTest, RecallWaitsForEndOfTurn) {
  RestInTurn();
  const base::Instant end = now() + kTurn;
  state().OnRecall(state().grant_id(), now());
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(state().next_request_at(), end);
  PassTo(end);
  Fetch<ReleaseRequest>();
}

// Readers share what stays.
class LockStateCachedReadsTest : public LockStateCachedTest {
 protected:
  LockStateCachedReadsTest() {
    Make({.use = GrantUse::kShared, .reentrant = true});
    state().OnSubscribed();
  }
};

TEST_F(LockStateCachedReadsTest, AreTakenAgainWithoutServer) {
  Cache();
  for (uint64_t thread = 1; thread <= 3; ++thread) {
    EXPECT_EQ(Acquire(Kept(thread)).state, State::kGranted) << "the window is zero";
  }
  Pass(absl::Milliseconds(100));
  EXPECT_EQ(Acquire(Kept(4)).state, State::kGranted);
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

// As many as without `keep`: who reads only briefly would else gain by not keeping anything.
TEST_F(LockStateCachedReadsTest, AreJoinedWithinTurnDespiteWritersRecall) {
  Want in_window = Kept(2);
  in_window.turn = absl::Milliseconds(5);
  Hold(Kept(1));
  Pass(absl::Milliseconds(2));
  state().OnRecall(state().grant_id(), now());
  EXPECT_EQ(Acquire(in_window).state, State::kGranted);
  Pass(absl::Milliseconds(3));
  in_window.thread = 3;
  EXPECT_EQ(Acquire(in_window).state, State::kElsewhere);
  EXPECT_TRUE(Quiet()) << "nobody has to ask whether somebody waits";
  EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  EXPECT_EQ(Unlock(2).kind, Kind::kUnderWay);
}

}  // namespace
}  // namespace redlatch::internal
