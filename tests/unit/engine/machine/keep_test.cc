// A grant that stays with its client although no thread has it, until another client asks for it.

#include "tests/unit/engine/machine/machine_fixture.h"

namespace redlatch::engine {
namespace {

constexpr absl::Duration kKeep = absl::Seconds(2);
constexpr absl::Duration kTick = absl::Nanoseconds(1);

class LockMachineKeepTest : public LockMachineTest {
 protected:
  LockMachineKeepTest() { machine().OnHearing(); }

  static Want Kept(uint64_t thread = 1, Face face = Face::kStd) {
    return {.thread = thread, .face = face, .local_window = absl::ZeroDuration(), .keep = kKeep};
  }
  static std::shared_ptr<const LockOptions> Options() {
    return std::make_shared<LockOptions>(LockOptions{.lease = kLease, .keep = kKeep});
  }
  // A lock() and its unlock(): now it rests.
  GrantId Rest() {
    Hold(Kept());
    const GrantId grant = machine().grant_id();
    EXPECT_EQ(Unlock(1).kind, Kind::kDone);
    EXPECT_TRUE(machine().attends());
    return grant;
  }
  // The same, of a lease: it drew the only token there was, and more are asked for.
  Send RestWithoutTokens() {
    EXPECT_EQ(Release(Hold(Kept(1, Face::kStatus)).hold).kind, Kind::kDone);
    return Fetch<ToRenew>();
  }
  static Answer HeldWith(uint64_t last_token, int64_t waiters = 0) {
    return {.what = StillHeld{.others = waiters, .last_token = last_token}};
  }
  bool Retake(uint64_t thread = 1) { return machine().Retake(thread, Options(), now()); }
  bool Leave(uint64_t thread = 1) {
    std::shared_ptr<const LockOptions> ended;
    const bool left = machine().Leave(thread, now(), ended);
    EXPECT_EQ(left, ended != nullptr);
    return left;
  }
};

TEST_F(LockMachineKeepTest, IsTakenAgainWithoutTheServer) {
  Rest();
  for (int i = 0; i < 100; ++i) {
    const uint64_t thread = 1 + i % 2;
    const Waiter& again = Acquire(Kept(thread));
    ASSERT_EQ(again.state, State::kGranted);
    EXPECT_EQ(again.token, FencingToken()) << "nobody has asked for it";
    EXPECT_EQ(Unlock(thread).kind, Kind::kDone);
    EXPECT_TRUE(Quiet());
  }
}

TEST_F(LockMachineKeepTest, GoesBackWhenItHasBeenIdleForSoLong) {
  Rest();
  Pass(kThird);
  Hear(Fetch<ToRenew>(), HeldWith(0));
  Acquire(Kept());
  Unlock(1);
  const base::Instant end = now() + kKeep;
  Pass(kThird);
  Hear(Fetch<ToRenew>(), HeldWith(0));
  PassTo(end - kTick);
  EXPECT_TRUE(machine().attends());
  PassTo(end);
  EXPECT_LE(machine().next_send(), end);
  Hear(Fetch<ToRelease>(), ReleasedThen());
  EXPECT_FALSE(machine().attends());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineKeepTest, IdleGrantGoesBackAtOnceWhenItIsWanted) {
  const GrantId grant = Rest();
  machine().OnWanted(grant, now());
  const std::optional<Send> release = machine().NextRelease(now());
  ASSERT_TRUE(release.has_value());
  EXPECT_EQ(release->grant, grant);
  Hear(*release, ReleasedThen());
  EXPECT_TRUE(machine().idle());
}

TEST_F(LockMachineKeepTest, IdleGrantGoesBackWhenNoMessageArrives) {
  Rest();
  machine().OnDeaf(now());
  Fetch<ToRelease>();
}

TEST_F(LockMachineKeepTest, BusyGrantOfADeafClientGoesBackAtItsRelease) {
  Hold(Kept());
  machine().OnDeaf(now());
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(Unlock(1).kind, Kind::kUnderWay);
}

TEST_F(LockMachineKeepTest, ClaimStaysOnceItIsConfirmed) {
  const Want want = Kept();
  Queue(want);
  Pass(absl::Milliseconds(1));
  HearGrant({.grant = machine().grant_id(), .attempt = 1, .token = kToken, .claim = kLease / 2});
  EXPECT_EQ(Unlock(1).kind, Kind::kUnderWay) << "whoever gave it may want it back";
  Hear(Fetch<ToRelease>(), ReleasedThen());

  Queue(want);
  HearGrant({.grant = machine().grant_id(), .attempt = 1, .token = kToken, .claim = kLease / 2});
  Pass(absl::Milliseconds(100));
  Hear(Fetch<ToRenew>(), HeldWith(0));
  EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  EXPECT_TRUE(Quiet());
}

TEST_F(LockMachineKeepTest, ShortWayIsForNoOtherTerms) {
  Rest();
  LockOptions options = *Options();
  options.lease = 2 * kLease;
  EXPECT_FALSE(machine().Retake(1, std::make_shared<LockOptions>(options), now()));
  options = *Options();
  options.keep = absl::ZeroDuration();
  EXPECT_FALSE(machine().Retake(1, std::make_shared<LockOptions>(options), now()));
  options = *Options();
  options.fsync = true;
  EXPECT_FALSE(machine().Retake(1, std::make_shared<LockOptions>(options), now()));
  options = *Options();
  options.replica_acks = 1;
  EXPECT_FALSE(machine().Retake(1, std::make_shared<LockOptions>(options), now()));
  EXPECT_TRUE(Retake());
}

TEST_F(LockMachineKeepTest, ShortWayIsClosedFromTheMomentOfLossOn) {
  Rest();
  PassTo(machine().next_expiry());
  EXPECT_FALSE(Retake());
  Expire();
  EXPECT_TRUE(effects().losses.empty());

  Make({});
  machine().OnHearing();
  Rest();
  ASSERT_TRUE(Retake());
  PassTo(machine().next_expiry());
  EXPECT_FALSE(Leave());
}

TEST_F(LockMachineKeepTest, ShortWayOutIsForAPlainHold) {
  Hold(Kept(1, Face::kStatus));
  EXPECT_FALSE(Leave()) << "a lease";
  Make({.reentrant = true});
  machine().OnHearing();
  Hold(Kept());
  ASSERT_TRUE(machine().Reenter(1, Face::kStd, false, now()).has_value());
  EXPECT_FALSE(Leave()) << "it is entered twice";
  EXPECT_TRUE(machine().ReleaseInner(1, Face::kStd));
  machine().ViewOf(1);
  EXPECT_FALSE(Leave()) << "somebody looks at it";
}

TEST_F(LockMachineKeepTest, TokenIsDrawnOnceForAHoldAndNeverAfterItsEnd) {
  Hold(Kept());
  EXPECT_FALSE(machine().Draw(2, now()).has_value()) << "it has no hold";
  const auto drawn = machine().Draw(1, now());
  ASSERT_TRUE(drawn.has_value());
  EXPECT_EQ(drawn->token, FencingToken(kToken));
  EXPECT_FALSE(machine().Draw(1, now()).has_value()) << "it has one";
  EXPECT_EQ(machine().OfThread(1).token, FencingToken(kToken));
  Unlock(1);
  EXPECT_FALSE(machine().Draw(1, now()).has_value());

  Make({});
  machine().OnHearing();
  Hold(Kept());
  Pass(kValid);
  EXPECT_FALSE(machine().Draw(1, now()).has_value()) << "its lease is over";
}

TEST_F(LockMachineKeepTest, TokensBehindTheFirstAreNoSoonerThanTheClockReachesThem) {
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
TEST_F(LockMachineKeepTest, ReleaseDoesNotNameTheLastTokenWhileARenewalIsUnanswered) {
  const auto released = [&] {
    machine().OnWanted(machine().grant_id(), now());
    const ToRelease release = As<ToRelease>(Fetch<ToRelease>());
    EXPECT_EQ(release.last_used, kToken);
    return release.last_reserved;
  };
  RestWithoutTokens();
  EXPECT_EQ(released(), 0);
  Make({});
  machine().OnHearing();
  Hear(RestWithoutTokens(), Silence());
  EXPECT_EQ(released(), 0);
  Make({});
  machine().OnHearing();
  Hear(RestWithoutTokens(), HeldWith(kToken + 1'000'000));
  EXPECT_EQ(released(), kToken + 1'000'000);
}

TEST_F(LockMachineKeepTest, ThreadWaitsForTokensThatAreUnderWay) {
  const Send renewal = RestWithoutTokens();
  Waiter& lease = Acquire(Kept(1, Face::kStatus));
  EXPECT_EQ(lease.state, State::kWaiting);
  EXPECT_FALSE(Retake()) << "others are before it";
  Hear(renewal, HeldWith(kToken + 1'000'000));
  EXPECT_EQ(lease.state, State::kGranted);
  EXPECT_EQ(lease.token, FencingToken(kToken + 1));
}

TEST_F(LockMachineKeepTest, ThreadThatWaitsForTokensAsksTheServerIfNoneCome) {
  for (const Answer& answer : {HeldWith(0), Silence(), NotHeld()}) {
    Make({});
    machine().OnHearing();
    const Send renewal = RestWithoutTokens();
    Waiter& lease = Acquire(Kept(1, Face::kStatus));
    Hear(renewal, answer);
    EXPECT_EQ(lease.state, State::kWaiting);
    const Send release = Fetch<ToRelease>();
    ASSERT_NE(release.bid(), nullptr);
    Hear(release, ReleasedThen(BidGranted{.token = kToken + 9, .lease = kLease}));
    EXPECT_EQ(lease.state, State::kGranted);
  }
}

TEST_F(LockMachineKeepTest, TokensAreAskedForAgainBeforeTheyRunOut) {
  Hear(RestWithoutTokens(), HeldWith(kToken + 2050));
  Release(Acquire(Kept(1, Face::kStatus)).hold);
  EXPECT_TRUE(Quiet());
  Release(Acquire(Kept(1, Face::kStatus)).hold);
  Release(Acquire(Kept(1, Face::kStatus)).hold);
  Fetch<ToRenew>();
}

TEST_F(LockMachineKeepTest, TriesCallWhoeverKeepsItOnceASecond) {
  Want tries = Kept();
  tries.patience = Patience::kNone;
  const auto calls = [&] {
    Acquire(tries);
    const Send bid = Fetch<ToAcquire>();
    Hear(bid, Busy());
    EXPECT_FALSE(BidOf(bid).wait);
    return BidOf(bid).calls;
  };
  EXPECT_TRUE(calls());
  EXPECT_FALSE(calls());
  Pass(absl::Seconds(1));
  EXPECT_TRUE(calls());
  Acquire(Kept());
  EXPECT_FALSE(BidOf(Fetch<ToAcquire>()).calls) << "who is queued calls by that";
}

TEST_F(LockMachineKeepTest, IsNotKeptForAWhileAfterATry) {
  machine().OnWanted(Rest(), now(), /*tried=*/true);
  Hear(Fetch<ToRelease>(), ReleasedThen());
  const base::Instant tried = now();
  for (; now() < tried + absl::Seconds(2); Pass(absl::Milliseconds(500))) {
    Hold(Kept());
    EXPECT_FALSE(Leave());
    EXPECT_EQ(Unlock(1).kind, Kind::kUnderWay) << now() - tried;
    Hear(Fetch<ToRelease>(), ReleasedThen());
  }
  Pass(absl::Seconds(1));
  Rest();
}

// A turn, in which a client keeps what others want.
class LockMachineKeptTurnTest : public LockMachineKeepTest {
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
    Hear(Fetch<ToAcquire>(), Granted(/*others=*/1));
    Unlock(1);
    Acquire(WithTurn());
    Hear(Fetch<ToRelease>(), ReleasedThen(BidQueued{.retry_after = kLease, .ticket = 7}));
    HearGrant({.grant = machine().grant_id(), .attempt = 1, .token = kToken, .claim = kLease});
    EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  }
};

TEST_F(LockMachineKeptTurnTest, WishWaitsForTheEndOfTheTurn) {
  RestInTurn();
  const base::Instant end = now() + kTurn;
  machine().OnWanted(machine().grant_id(), now());
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(machine().next_send(), end);
  PassTo(end);
  Fetch<ToRelease>();
}

// Readers share what stays.
class LockMachineKeptReadsTest : public LockMachineKeepTest {
 protected:
  LockMachineKeptReadsTest() {
    Make({.reentrant = true, .sharing = kReaders});
    machine().OnHearing();
  }
};

TEST_F(LockMachineKeptReadsTest, AreTakenAgainWithoutTheServer) {
  Rest();
  for (uint64_t thread = 1; thread <= 3; ++thread) {
    EXPECT_EQ(Acquire(Kept(thread)).state, State::kGranted) << "the window is zero";
  }
  Pass(absl::Milliseconds(100));
  EXPECT_EQ(Acquire(Kept(4)).state, State::kGranted);
  for (uint64_t thread = 1; thread <= 4; ++thread) {
    EXPECT_EQ(Unlock(thread).kind, Kind::kDone);
  }
  EXPECT_TRUE(Quiet());
  ASSERT_TRUE(Retake(1));
  ASSERT_TRUE(Retake(2)) << "beside the other";
  EXPECT_FALSE(Retake(2)) << "it reads already";
  EXPECT_NE(machine().OfThread(2).token, FencingToken()) << "the last write's";
  EXPECT_EQ(machine().OfThread(2).token, machine().OfThread(1).token);
  EXPECT_FALSE(Leave(3)) << "it does not read";
  EXPECT_TRUE(Leave(1));
  EXPECT_TRUE(machine().OfThread(2).depth > 0);
  EXPECT_EQ(machine().rests_until(), base::Instant()) << "the other reads on";
  EXPECT_TRUE(Leave(2));
  EXPECT_EQ(machine().rests_until(), now() + kKeep);
  EXPECT_TRUE(Quiet());
}

// As many as without `keep`: who reads only briefly would else gain by not keeping anything.
TEST_F(LockMachineKeptReadsTest, AreJoinedWithinTheWindowThoughAWriterWantsThem) {
  Want in_window = Kept(2);
  in_window.local_window = absl::Milliseconds(5);
  Hold(Kept(1));
  Pass(absl::Milliseconds(2));
  machine().OnWanted(machine().grant_id(), now());
  EXPECT_EQ(Acquire(in_window).state, State::kGranted);
  Pass(absl::Milliseconds(3));
  in_window.thread = 3;
  EXPECT_EQ(Acquire(in_window).state, State::kElsewhere);
  EXPECT_TRUE(Quiet()) << "nobody has to ask whether somebody waits";
  EXPECT_EQ(Unlock(1).kind, Kind::kDone);
  EXPECT_EQ(Unlock(2).kind, Kind::kUnderWay);
}

}  // namespace
}  // namespace redlatch::engine
