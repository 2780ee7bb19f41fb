// Rare states that a script meets: a lock that was taken while a forced release goes on, records
// that end before their key, a token that is too large.
#include "src/lock/lock_type.h"
#include "tests/sim/lua/contract/fixture.h"
#include "tests/sim/lua/multi/fixture.h"
#include "tests/sim/lua/read_write/fixture.h"
#include "tests/sim/lua/semaphore/fixture.h"

namespace redlatch {
namespace {

class LockForce : public LockContract {};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockForce, ::testing::ValuesIn(ExclusiveKinds()), NameOfKind);

TEST_P(LockForce, GoesOnWithoutEndingANewGrant) {
  EXPECT_EQ(ForceRelease(), kFree);
  Take(Of('a'));
  EXPECT_EQ(PartOfForce({"redlatch:", "more"}).DebugString(), "[\"told\"]");
  EXPECT_EQ(Owner(), Hold('a'));
}

class KeptLock : public LockContract {};
INSTANTIATE_TEST_SUITE_P(OfEachKind, KeptLock, ::testing::ValuesIn(KindsWithTokens()), NameOfKind);

TEST_P(KeptLock, GivesNoMoreTokensToAClientThatKnowsFewerThanItHad) {
  const Request kept = Kept(Of('a'));
  const int64_t token = Token(kept);
  const auto renew = [&](int64_t known) {
    return Eval(scripts_.renew, {},
                {kept.hold, absl::StrCat(kept.lease_ms), kept.channel(), absl::StrCat(known)});
  };
  EXPECT_GT(std::stoll(renew(token).elements.at(2).text), token);
  EXPECT_EQ(renew(token - 1).elements.at(2).integer, 0);
}

// Nothing is granted for 4 s after the server has become another.
LockKind QuarantinedKind() {
  static const internal::LockType plan = [] {
    internal::LockType made;
    made.scripts = SimpleKind().scripts;
    return Quarantined(std::move(made));
  }();
  LockKind kind = SimpleKind();
  kind.scripts = plan.scripts;
  kind.own_keys = {"epoch"};
  kind.more_args = {"abc", "4000"};
  return kind;
}

class QuarantinedLock : public LockScriptsFixture {
 protected:
  QuarantinedLock() : LockScriptsFixture(QuarantinedKind()) {}
};

TEST_F(QuarantinedLock, GrantsNothingAndForgetsWhatWasGivenUp) {
  EXPECT_EQ(Acquire(Impatient(By('a'))), "[\"busy\", 4000]");
  server_->Command({"SET", Gone(Hold('b')), "", "PX", "1000"});
  EXPECT_EQ(Acquire(By('b')), kGone);
}

TEST_F(QuarantinedLock, IsReleasedWithoutQueuingItsClientAgain) {
  Acquire(Impatient(By('a')));
  server_->Pass(4000);
  EXPECT_EQ(Outcome(By('a')), "granted");
  server_->Command({"DEL", Auxiliary("epoch")});
  EXPECT_EQ(ReleaseAndQueue(By('a'), By('a', 2)).DebugString(), kReleased);
  EXPECT_THAT(Waiting(), IsEmpty());
}

class SemaphoreCorners : public SemaphoreScriptsFixture {};

TEST_F(SemaphoreCorners, APermitThatHasExpiredIsFreeForTheFirstThatWouldWait) {
  Ask(For(100, One('a')));
  Ask(One('b'));
  server_->Pass(200);
  EXPECT_EQ(Acquire(One('c')), Granted());
}

TEST_F(SemaphoreCorners, APermitThatIsGoneIsNotHeld) {
  Ask(One('a'));
  EXPECT_EQ(Release(One('a')), kReleased);
  EXPECT_EQ(Release(One('a')), kNotHeld);
}

TEST_F(SemaphoreCorners, ThoseWhosePermitsHaveExpiredAreNotTold) {
  capacity_ = 200;
  Ask(One('a'));
  MakeHolds(100, 1'000'000);
  Request lasting = One('b');
  for (int i = 0; i < 64; ++i) {
    lasting.hold = Hold('b', i);
    Ask(lasting);
  }
  EXPECT_EQ(First(PartOfForce({"redlatch:"})), "released");
  EXPECT_GT(server_->Integer({"ZCARD", Untold()}), 64);
  server_->Pass(1100);
  PartOfForce({"redlatch:", "more"});
  EXPECT_EQ(server_->Integer({"EXISTS", Untold()}), 0);
}

class ReadWriteCorners : public ReadWriteScriptsTest {};

TEST_F(ReadWriteCorners, AReaderThatWouldNotWaitJoinsOthersWhileTheOnlyWriterIsOverdue) {
  EXPECT_EQ(Outcome(Reader('a')), "granted");
  Ear ear(*server_, Channel('b'));
  EXPECT_EQ(Outcome(Writer('b')), "queued");
  EXPECT_EQ(Outcome(Impatient(Reader('c'))), "busy");
  MakeOverdue(Hold('b'));
  EXPECT_EQ(Outcome(Impatient(Reader('c'))), "granted");
}

TEST_F(ReadWriteCorners, AReaderHasItsTurnWhenFairWritesHaveExpired) {
  for (const int sequence : {1, 2}) {
    EXPECT_EQ(Outcome(For(1000, Fair('a', sequence))), "granted");
  }
  Ear ear(*server_, Channel('b'));
  EXPECT_EQ(Outcome(Fair('b')), "queued");
  // The keys outlive their records, by 1 ms at most.
  for (const std::string& key : {name_, Holds()}) server_->Command({"PEXPIRE", key, "5000"});
  server_->Pass(1001);
  EXPECT_EQ(Outcome(Reader('c')), "granted");
}

TEST_F(ReadWriteCorners, ATokenTooLargeForOursIsRefused) {
  server_->Command({"SET", Fence(), "9100000000000000", "PX", "30000"});
  ExpectRefused(Fence(), "no fencing token", {Acquire(Reader('a'))});
}

class MultiCorners : public MultiScriptsFixture {};

TEST_F(MultiCorners, ARepeatThatHasLostOneNameHandsTheOthersToTheirWaiters) {
  const Names names = {"{m}1", "{m}2"};
  EXPECT_EQ(Word(Ask(names, By('a')), 0), "granted");
  Ear ear(*server_, Channel('b'));
  EXPECT_EQ(Word(Ask({names[0]}, By('b')), 0), "queued");
  server_->Command({"DEL", names[1]});
  EXPECT_EQ(Word(Ask({names[1]}, By('c')), 0), "granted");
  EXPECT_EQ(Word(Ask(names, Again(By('a'))), 0), "queued");
  EXPECT_EQ(Holder(names[0]), By('b').hold);
  EXPECT_THAT(ear.Hear(), ::testing::StartsWith("grant " + By('b').hold));
}

}  // namespace
}  // namespace redlatch
