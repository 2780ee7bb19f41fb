#include "src/cli/look/quorum_row.h"

#include "tests/support/testing.h"

namespace redlatch::cli {
namespace {

const std::string kOne = std::string(32, 'a') + ":1";
const std::string kOther = std::string(32, 'b') + ":1";

LockRow Held(const std::string& hold, int seconds) {
  LockRow row;
  row.name = "lock";
  row.type = "string";
  row.kind = "quorum";
  row.holding = 1;
  row.hold = hold;
  row.remaining = absl::Seconds(seconds);
  return row;
}

LockRow Free(int64_t waiting = 0) {
  LockRow row;
  row.name = "lock";
  row.type = "none";
  row.kind = waiting > 0 ? "quorum" : "";
  row.waiting = waiting;
  return row;
}

LockRow Simple(const std::string& hold) {
  LockRow row = Held(hold, 30);
  row.kind = "simple";
  return row;
}

TEST(RowOfQuorumTest, IsHeldByWhoHasAMajority) {
  const LockRow row =
      RowOfQuorum({Held(kOne, 30), Held(kOther, 60), Held(kOne, 20), Held(kOne, 10)}, 5, 0);
  EXPECT_EQ(row.holding, 1);
  EXPECT_EQ(row.hold, kOne);
  EXPECT_EQ(row.held_on, 3);
  EXPECT_EQ(StateOf(row), "held 3/5");
}

TEST(RowOfQuorumTest, ItsLeaseIsThatOfAMajority) {
  EXPECT_EQ(RowOfQuorum({Held(kOne, 10), Held(kOne, 30), Held(kOne, 20)}, 3, 0).remaining,
            absl::Seconds(20));
  EXPECT_EQ(RowOfQuorum({Held(kOne, 10), Held(kOne, 30)}, 3, 1).remaining, absl::Seconds(10));
}

TEST(RowOfQuorumTest, AMinorityHoldsNothing) {
  const LockRow row = RowOfQuorum({Held(kOne, 30), Free(2), Held(kOne, 20)}, 5, 0);
  EXPECT_EQ(row.holding, 0);
  EXPECT_EQ(row.held_on, 2);
  EXPECT_EQ(row.waiting, 2);
  EXPECT_EQ(StateOf(row), "part 2/5");
  EXPECT_TRUE(row.in_use());
}

TEST(RowOfQuorumTest, ServersThatDoNotAnswerMayMakeItAMajority) {
  EXPECT_EQ(StateOf(RowOfQuorum({Held(kOne, 30), Held(kOne, 30)}, 5, 1)), "maybe 2/5");
  EXPECT_EQ(StateOf(RowOfQuorum({Held(kOne, 30)}, 5, 1)), "part 1/5");
  EXPECT_EQ(StateOf(RowOfQuorum({Held(kOne, 30)}, 4, 1)), "part 1/4") << "half is no majority";
}

TEST(RowOfQuorumTest, WhatNobodyHasIsFree) {
  const LockRow row = RowOfQuorum({Free(), Free(1)}, 3, 0);
  EXPECT_EQ(StateOf(row), "free");
  EXPECT_EQ(row.kind, "quorum");
  EXPECT_EQ(row.waiting, 1);
}

TEST(RowOfQuorumTest, ASimpleLockOfThatNameGrantsNothing) {
  const LockRow row = RowOfQuorum({Simple(kOther), Held(kOne, 30)}, 3, 0);
  EXPECT_EQ(row.hold, kOne);
  EXPECT_EQ(row.held_on, 1);
  EXPECT_FALSE(MayBeOfQuorum(Simple(kOther)));
  EXPECT_TRUE(MayBeOfQuorum(Simple("another program's"))) << "it keeps the quorum out";
}

TEST(RowOfQuorumTest, OtherKindsAreNone) {
  LockRow row;
  row.type = "hash";
  row.kind = "reentrant";
  EXPECT_FALSE(MayBeOfQuorum(row));
  row.kind = "simple";
  row.type = "none";
  EXPECT_FALSE(MayBeOfQuorum(row)) << "somebody waits for a simple lock";
}

}  // namespace
}  // namespace redlatch::cli
