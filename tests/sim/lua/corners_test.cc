// Rare states that a script meets: a lock that was taken while a forced release goes on, records
// that end before their key, a token that is too large.
#include "src/lock/lock_type.h"
#include "tests/sim/lua/contract/fixture.h"
#include "tests/sim/lua/multi/fixture.h"
#include "tests/sim/lua/read_write/fixture.h"
#include "tests/sim/lua/semaphore/fixture.h"

namespace redlatch {
namespace {

// Nothing is granted for 4 s after the server has become another.
LockKind QuarantinedKind(LockKind kind) {
  static std::deque<internal::LockType> types;  // own the scripts
  internal::LockType& type = types.emplace_back();
  type.scripts = kind.scripts;
  type.traits.kind = kind.stored;
  type = Quarantined(std::move(type));
  kind.scripts = type.scripts;
  kind.own_keys.emplace_back("epoch");
  kind.more_args.insert(kind.more_args.end(), {"abc", "4000"});
  return kind;
}

struct Quarantine : LockScriptsFixture {
  explicit Quarantine(LockKind kind = SimpleKind())
      : LockScriptsFixture(QuarantinedKind(std::move(kind))) {}
};

struct WriterQuarantine : Quarantine {
  WriterQuarantine() : Quarantine(WriteKind()) {}
};

// Its last fence may not have arrived.
TEST_F(WriterQuarantine, TokensAreLargerThanThoseOfThePreviousPrimary) {
  server_->Do({"SET", Fence(), "1000", "PX", "3600000"});
  EXPECT_EQ(Acquire(Impatient(By('a'))), "[\"busy\", 4000]");
  const int64_t ends_us = server_->clock() + 4'000'000;
  server_->Pass(4001);
  EXPECT_GE(Token(By('a')), ends_us - 1000);
}

TEST_F(Quarantine, GrantsNothingAndForgetsCancelled) {
  EXPECT_EQ(Acquire(Impatient(By('a'))), "[\"busy\", 4000]");
  server_->Command({"SET", Gone(GrantId('b')), "", "PX", "1000"});
  EXPECT_EQ(Acquire(By('b')), kGone);
}

TEST_F(Quarantine, ReleaseDoesNotQueueAgain) {
  Acquire(Impatient(By('a')));
  server_->Pass(4000);
  EXPECT_EQ(Outcome(By('a')), "granted");
  server_->Command({"DEL", Auxiliary("epoch")});
  EXPECT_EQ(ReleaseAndQueue(By('a'), By('a', 2)).DebugString(), kReleased);
  EXPECT_THAT(Waiting(), IsEmpty());
}

class SemaphoreEdge : public SemaphoreScriptsFixture {};

TEST_F(SemaphoreEdge, ExpiredPermitIsFreeForFirstWaiter) {
  Ask(For(100, One('a')));
  Ask(One('b'));
  server_->Pass(200);
  EXPECT_EQ(Acquire(One('c')), Granted());
}

TEST_F(SemaphoreEdge, ExpiredHoldersAreNotTold) {
  capacity_ = 200;
  Ask(One('a'));
  MakeHolds(100, 1'000'000);
  Request lasting = One('b');
  for (int i = 0; i < 64; ++i) {
    lasting.grant = GrantId('b', i);
    Ask(lasting);
  }
  EXPECT_EQ(First(PartOfForce({"redlatch:"})), "released");
  EXPECT_GT(server_->Integer({"ZCARD", Untold()}), 64);
  server_->Pass(1100);
  PartOfForce({"redlatch:", "more"});
  EXPECT_EQ(server_->Integer({"EXISTS", Untold()}), 0);
}

class ReadWriteEdge : public ReadWriteScripts {};

TEST_F(ReadWriteEdge, TryReadJoinsIfOnlyWriterIsOverdue) {
  EXPECT_EQ(Outcome(Reader('a')), "granted");
  Inbox inbox(*server_, Channel('b'));
  EXPECT_EQ(Outcome(Writer('b')), "queued");
  EXPECT_EQ(Outcome(Impatient(Reader('c'))), "busy");
  MakeOverdue(GrantId('b'));
  EXPECT_EQ(Outcome(Impatient(Reader('c'))), "granted");
}

TEST_F(ReadWriteEdge, ReaderGetsInAfterExpiredFairWrites) {
  for (const int sequence : {1, 2}) {
    EXPECT_EQ(Outcome(For(1000, Fair('a', sequence))), "granted");
  }
  Inbox inbox(*server_, Channel('b'));
  EXPECT_EQ(Outcome(Fair('b')), "queued");
  // The keys outlive their records, by 1 ms at most.
  for (const std::string& key : {name_, GrantsKey()}) server_->Command({"PEXPIRE", key, "5000"});
  server_->Pass(1001);
  EXPECT_EQ(Outcome(Reader('c')), "granted");
}

TEST_F(ReadWriteEdge, TooLargeTokenIsRefused) {
  server_->Command({"SET", Fence(), "9100000000000000", "PX", "30000"});
  ExpectRefused(Fence(), "no fencing token", {Acquire(Reader('a'))});
}

struct MultiEdge : MultiScriptsFixture {
  const Names names_ = {"{m}1", "{m}2"};
};

TEST_F(MultiEdge, HeartbeatThatCrossedTheGrantLeavesTheQueues) {
  EXPECT_EQ(Word(Ask(names_, By('a')), 0), "granted");
  EXPECT_EQ(Word(Ask(names_, By('b')), 0), "queued");
  const std::string record = server_->Text({"HGET", Waiters(names_[1]), By('b').grant});
  server_->Do({"HSET", Waiters(names_[1]), By('a').grant, record});
  server_->Do({"ZADD", Queue(names_[1]), "1", By('a').grant});
  EXPECT_EQ(Word(Ask(names_, Again(By('a'))), 0), "granted");
  EXPECT_THAT(Waiting(names_[1]), ::testing::Not(::testing::Contains(By('a').grant)));
}

TEST_F(MultiEdge, KeyWithoutATtlIsPolled) {
  EXPECT_EQ(Word(Ask(names_, By('a')), 0), "granted");
  server_->Do({"PERSIST", names_[1]});
  EXPECT_EQ(Word(Ask(names_, By('b')), 1), "-1");
  server_->Do({"DEL", names_[1]});
}

TEST_F(MultiEdge, RepeatWithLostNameHandsOthersOver) {
  EXPECT_EQ(Word(Ask(names_, By('a')), 0), "granted");
  Inbox inbox(*server_, Channel('b'));
  EXPECT_EQ(Word(Ask({names_[0]}, By('b')), 0), "queued");
  server_->Command({"DEL", names_[1]});
  EXPECT_EQ(Word(Ask({names_[1]}, By('c')), 0), "granted");
  EXPECT_EQ(Word(Ask(names_, Again(By('a'))), 0), "queued");
  EXPECT_EQ(Holder(names_[0]), By('b').grant);
  EXPECT_THAT(inbox.Next(), ::testing::StartsWith("grant " + By('b').grant));
}

}  // namespace
}  // namespace redlatch
