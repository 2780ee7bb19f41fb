// Releases after which the lock stays taken for a while.

#include "tests/sim/lua/contract/fixture.h"

namespace redlatch {
namespace {

struct LockStaysTaken : LockContract {
  static constexpr int64_t kMicros = 1000;

  // Acquires, and returns the server's time.
  int64_t TakeAt(const Request& request) { return Token(request); }
  // Releases a grant whose lock stays taken until that time of the server, and for no longer than
  // `most_ms`.
  std::string ReleaseUntil(const Request& held, int64_t until_us, int64_t most_ms = 60'000,
                           int gone_ms = 0) {
    return Eval(
               scripts_.release, {Gone(held.grant), Gone(held.grant)},
               {held.grant, absl::StrCat("0 0 ", gone_ms, " ", until_us, " ", most_ms), held.owner})
        .DebugString();
  }
  // Takes the lock for 30 s, and releases it so that it stays taken for 5 s.
  void TakeAndRelease() {
    const int64_t granted = TakeAt(For(30'000, Of('a')));
    EXPECT_EQ(ReleaseUntil(Of('a'), granted + 5000 * kMicros), kReleased);
  }
  // The id of a grant that was released while its lock stays taken.
  static std::string Marked(std::string grant) { return grant.insert(grant.find(':') + 1, "0"); }
  void ExpectRemaining(int64_t more_than, int64_t at_most) {
    EXPECT_GT(Pttl(name_), more_than);
    EXPECT_LE(Pttl(name_), at_most + 1) << "it is rounded up";
  }
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockStaysTaken, ::testing::ValuesIn(KindsWithTokens()),
                         NameOfKind);

TEST_P(LockStaysTaken, ReleasedLockStaysTakenUntilThatTime) {
  for (const int lease_ms : {1000, 30'000}) {
    server_->Command({"FLUSHALL"});
    const int64_t granted = TakeAt(For(lease_ms, Of('a')));
    EXPECT_EQ(ReleaseUntil(Of('a'), granted + 5000 * kMicros), kReleased);
    ExpectRemaining(4000, 5000);
    EXPECT_EQ(Outcome(Impatient(Of('b'))), "busy");
    EXPECT_EQ(Outcome(Of('a', 2)), "queued") << "the same client";
    EXPECT_EQ(ReleaseUntil(Of('a'), granted + 5000 * kMicros), kNotHeld) << "a repeat";
    ExpectRemaining(4000, 5000);
    AwaitExpiry(name_);
    EXPECT_EQ(Outcome(Of('a', 2)), "granted");
  }
}

// So that people see that no process has the lock any more.
TEST_P(LockStaysTaken, ReleasedGrantIsMarked) {
  const int64_t granted = TakeAt(For(30'000, Of('a')));
  const auto has = [&](const std::string& grant) {
    return kind_.name == SimpleKind().name
               ? server_->Command({"GET", name_}).text == grant
               : server_->Command({"HEXISTS", name_, grant}).integer == 1;
  };
  EXPECT_TRUE(has(GrantId('a')));
  EXPECT_EQ(ReleaseUntil(Of('a'), granted + 5000 * kMicros), kReleased);
  EXPECT_TRUE(has(Marked(GrantId('a'))));
  EXPECT_FALSE(has(GrantId('a')));
}

TEST_P(LockStaysTaken, ReleaseAfterThatTimeHandsOver) {
  Inbox b(*server_, Channel('b'));
  const int64_t granted = TakeAt(Of('a'));
  Ask(Of('b'));
  EXPECT_EQ(ReleaseUntil(Of('a'), granted), kReleased);
  EXPECT_EQ(b.Next(), GrantOf(Of('b')));
}

TEST_P(LockStaysTaken, FenceAheadOfClockDoesNotLengthenIt) {
  const int64_t granted = TakeAt(For(30'000, Of('a')));
  EXPECT_EQ(ReleaseUntil(Of('a'), granted + 3'600'000 * kMicros, 5000), kReleased);
  ExpectRemaining(4000, 5000);
}

// A renewal that was in flight may arrive after the release.
TEST_P(LockStaysTaken, LateRenewalDoesNotLengthenIt) {
  TakeAndRelease();
  EXPECT_EQ(Renew(Of('a')), kNotHeld);
  ExpectRemaining(4000, 5000);
  AwaitExpiry(name_);
  EXPECT_EQ(Outcome(Of('b')), "granted");
}

// The first waiter asks again, since it was told another time.
TEST_P(LockStaysTaken, FirstWaiterLearnsOfTheNewEnd) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  const int64_t granted = TakeAt(For(30'000, Of('a')));
  EXPECT_GT(Ask(Of('b')).elements.at(1).integer, 29'000);
  Ask(Of('c'));
  EXPECT_EQ(ReleaseUntil(Of('a'), granted + 5000 * kMicros), kReleased);
  EXPECT_EQ(b.Next(), "look " + GrantId('b') + " " + name_);
  const redis::Reply again = Ask(Again(Of('b')));
  EXPECT_EQ(First(again), "queued");
  EXPECT_LE(again.elements.at(1).integer, 5001) << "it is rounded up";
  EXPECT_EQ(again.elements.at(2).integer, 0);
  EXPECT_EQ(ForceRelease(), "[\"released\", \"" + Marked(GrantId('a')) + "\"]");
  EXPECT_EQ(b.Next(), "grant " + GrantId('b') +
                          absl::StrCat(" 2 ", StoredFence(), " ", Of('b').lease_ms, " 1 ", name_));
}

TEST_P(LockStaysTaken, NextWaiterLearnsOfNewEndWhenFirstOneLeaves) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  const int64_t granted = TakeAt(For(30'000, Of('a')));
  Ask(Of('b'));
  Ask(Of('c'));
  EXPECT_EQ(ReleaseUntil(Of('a'), granted + 5000 * kMicros), kReleased);
  EXPECT_EQ(Cancel(Of('b')), kLeft);
  EXPECT_EQ(c.Next(), "look " + GrantId('c') + " " + name_);
  EXPECT_LE(Ask(Again(Of('c'))).elements.at(1).integer, 5001) << "it is rounded up";
}

TEST_P(LockStaysTaken, ForcedReleaseEndsIt) {
  const int64_t granted = TakeAt(Of('a'));
  ReleaseUntil(Of('a'), granted + 5000 * kMicros);
  EXPECT_EQ(ForceRelease(), "[\"released\", \"" + Marked(GrantId('a')) + "\"]");
  EXPECT_EQ(Outcome(Of('b')), "granted");
  EXPECT_EQ(ReleaseUntil(Of('a'), granted + 5000 * kMicros), kNotHeld) << "a late repeat";
}

TEST_P(LockStaysTaken, LateAcquireIsGone) {
  const int64_t granted = TakeAt(Of('a'));
  EXPECT_EQ(ReleaseUntil(Of('a'), granted + 1000 * kMicros, 1000, 5000), kReleased);
  EXPECT_EQ(Outcome(Again(Of('a'))), "gone");
  AwaitExpiry(name_);
  EXPECT_EQ(Outcome(Again(Of('a'))), "gone");
  EXPECT_EQ(Outcome(Of('b')), "granted");
}

// A request of the same owner may have got in before the release arrived.
TEST_P(LockStaysTaken, OwnersOtherGrantKeepsItsLease) {
  if (kind_.name == SimpleKind().name) GTEST_SKIP() << "it has one grant";
  const int64_t granted = TakeAt(For(10'000, Of('a')));
  EXPECT_EQ(Outcome(For(30'000, Of('a', 2))), "granted");
  EXPECT_EQ(ReleaseUntil(Of('a'), granted + 2000 * kMicros), kReleased);
  ExpectRemaining(29'000, 30'000);
  server_->Pass(5000);
  EXPECT_EQ(Outcome(Impatient(Of('b'))), "busy");
  EXPECT_EQ(Renew(Of('a', 2)), kHeld);
  EXPECT_EQ(Release(Of('a', 2)), kReleased);
  EXPECT_EQ(Outcome(Impatient(Of('b'))), "granted");
}

TEST_P(LockStaysTaken, LastsBeyondOwnersOtherGrant) {
  if (kind_.name == SimpleKind().name) GTEST_SKIP() << "it has one grant";
  const int64_t granted = TakeAt(For(10'000, Of('a')));
  EXPECT_EQ(Outcome(For(1000, Of('a', 2))), "granted");
  EXPECT_EQ(ReleaseUntil(Of('a'), granted + 5000 * kMicros), kReleased);
  ExpectRemaining(4000, 5000);
  EXPECT_EQ(Release(Of('a', 2)), kReleased);
  ExpectRemaining(4000, 5000);
  EXPECT_EQ(Outcome(Impatient(Of('b'))), "busy");
}

TEST_P(LockStaysTaken, NeedsNoMemory) {
  const int64_t granted = TakeAt(For(30'000, Of('a')));
  Ask(Of('b'));
  FillMemory();
  EXPECT_EQ(ReleaseUntil(Of('a'), granted + 5000 * kMicros), kReleased);
  ExpectRemaining(4000, 5000);
}

}  // namespace
}  // namespace redlatch
