#include "src/cli/inspect/inspect.h"

#include "src/cli/term/output.h"
#include "tests/unit/lock/random_names.h"

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

TEST(RowOfQuorumTest, HolderHasAMajority) {
  const LockRow row =
      RowOfQuorum({Held(kOne, 30), Held(kOther, 60), Held(kOne, 20), Held(kOne, 10)}, 5, 0);
  EXPECT_EQ(row.holding, 1);
  EXPECT_EQ(row.hold, kOne);
  EXPECT_EQ(row.held_on, 3);
  EXPECT_EQ(StateOf(row), "held 3/5");
}

TEST(RowOfQuorumTest, LeaseIsThatOfAMajority) {
  EXPECT_EQ(RowOfQuorum({Held(kOne, 10), Held(kOne, 30), Held(kOne, 20)}, 3, 0).remaining,
            absl::Seconds(20));
  EXPECT_EQ(RowOfQuorum({Held(kOne, 10), Held(kOne, 30)}, 3, 1).remaining, absl::Seconds(10));
}

TEST(RowOfQuorumTest, MinorityHoldsNothing) {
  const LockRow row = RowOfQuorum({Held(kOne, 30), Free(2), Held(kOne, 20)}, 5, 0);
  EXPECT_EQ(row.holding, 0);
  EXPECT_EQ(row.held_on, 2);
  EXPECT_EQ(row.waiting, 2);
  EXPECT_EQ(StateOf(row), "part 2/5");
  EXPECT_TRUE(row.in_use());
}

TEST(RowOfQuorumTest, UnreachableServersMayCompleteAMajority) {
  EXPECT_EQ(StateOf(RowOfQuorum({Held(kOne, 30), Held(kOne, 30)}, 5, 1)), "maybe 2/5");
  EXPECT_EQ(StateOf(RowOfQuorum({Held(kOne, 30)}, 5, 1)), "part 1/5");
  EXPECT_EQ(StateOf(RowOfQuorum({Held(kOne, 30)}, 4, 1)), "part 1/4") << "half is no majority";
}

TEST(RowOfQuorumTest, LockWithoutGrantsIsFree) {
  const LockRow row = RowOfQuorum({Free(), Free(1)}, 3, 0);
  EXPECT_EQ(StateOf(row), "free");
  EXPECT_EQ(row.kind, "quorum");
  EXPECT_EQ(row.waiting, 1);
}

TEST(RowOfQuorumTest, SimpleLockOfThatNameIsNoGrant) {
  const LockRow row = RowOfQuorum({Simple(kOther), Held(kOne, 30)}, 3, 0);
  EXPECT_EQ(row.hold, kOne);
  EXPECT_EQ(row.held_on, 1);
  EXPECT_FALSE(MayBeOfQuorum(Simple(kOther)));
  EXPECT_TRUE(MayBeOfQuorum(Simple("another program's"))) << "it prevents grants of the quorum";
}

TEST(RowOfQuorumTest, OtherKindsAreNotOfTheQuorum) {
  LockRow row;
  row.type = "hash";
  row.kind = "reentrant";
  EXPECT_FALSE(MayBeOfQuorum(row));
  row.kind = "simple";
  row.type = "none";
  EXPECT_FALSE(MayBeOfQuorum(row)) << "a client waits for a simple lock";
}

TEST(LockKeys, EveryKeyOfALockTellsItsName) {
  for (const std::string& main : internal::RandomMainKeys(1'000, 7)) {
    EXPECT_EQ(ReadLockKey(main).name, main);
    EXPECT_EQ(ReadLockKey(main).part, kMain);
    for (const internal::KeyNames& names : internal::AllKeyNames()) {
      for (const std::string& key : internal::OtherKeysOf(main, names)) {
        const LockKey of = ReadLockKey(key);
        ASSERT_EQ(of.name, main) << key;
        ASSERT_EQ(internal::AuxiliaryKey(main, of.suffix), key);
        ASSERT_NE(of.part, kMain) << key;
      }
    }
  }
}

TEST(LockKeys, PartFollowsFromTheSuffix) {
  EXPECT_EQ(ReadLockKey("redlatch:2:{x}:fence").part, kFence);
  EXPECT_EQ(ReadLockKey("redlatch:rw:{x}:readers").part, kReaders);
  EXPECT_EQ(ReadLockKey("redlatch:2:{x}:rw.writers").part, kWriters);
  EXPECT_EQ(ReadLockKey("redlatch:2:{x}:semaphore.permits").part, kPermits);
  EXPECT_EQ(ReadLockKey("redlatch:2:{x}:election.leader").part, kLeader);
  EXPECT_EQ(ReadLockKey("redlatch:2.tag:{x}:x.own.queue").part, kQueue);
  EXPECT_EQ(ReadLockKey("redlatch:2:{x}:simple.waiters").part, kNoPart);
  EXPECT_EQ(ReadLockKey("redlatch:client:x").part, kNoPart);
  EXPECT_EQ(ReadLockKey("redlatch:client:x").name, "");
  EXPECT_EQ(ReadLockKey("x}").part, kNoPart) << "no lock can have this name";
}

TEST(LockKeys, QueueSuffixTellsTheKind) {
  for (const std::string kind :
       {"simple", "reentrant", "read_write", "semaphore", "latch", "election", "own"}) {
    EXPECT_EQ(KindOfQueue(QueueSuffix(kind)), kind);
  }
  EXPECT_EQ(QueueSuffix("read_write"), "rw.queue");
  EXPECT_EQ(WaitersSuffix("own"), "x.own.waiters");
}

TEST(LockKeys, QuorumValueIsGrantAndAttempt) {
  const std::string hold = std::string(32, 'a') + ":7";
  EXPECT_EQ(QuorumGrantIn(hold + " 12"), hold);
  for (const char* const rest : {"", " ", " x", " 1 2", " -1", "k1"}) {
    EXPECT_EQ(QuorumGrantIn(hold + rest), "") << rest;
  }
  EXPECT_EQ(QuorumGrantIn("another program 1"), "");
}

TEST(LockKeys, KindsHaveTheProtocolVersion) {
  EXPECT_EQ(KindIn("reentrant/2"), "reentrant");
  for (const char* const other : {"reentrant", "reentrant/3", "cooldown", "cooldown/2", ""}) {
    EXPECT_EQ(KindIn(other), other);
  }
  EXPECT_TRUE(IsKindOfOurs("reentrant/3"));
  EXPECT_FALSE(IsKindOfOurs("cooldown/2"));
  EXPECT_FALSE(IsKindOfOurs("simple/2")) << "a simple lock is no hash";
}

const ListCells kHeading = {"NAME", "KIND", "STATE", "LEASE", "WAITING", "HELD BY"};
const ListCells kLine = {
    "a-name-that-is-longer-than-thirty-two-columns",  "read_write", "read by 12", "29.9s", "3w",
    "web1:4242 redlatch run: make-report and 11 more"};
const size_t kLongest = kLine[0].size();

std::string Heading(size_t width, size_t longest = kLongest) {
  return ListColumns(width, longest).Line(kHeading);
}

TEST(ListColumnsTest, KeepTheHolderOnANarrowTerminal) {
  EXPECT_EQ(ListColumns(48, kLongest).Line(kLine),
            "a-name-that-is-l…  read by 12  web1:4242 redlat…");
  EXPECT_EQ(Heading(48), "NAME               STATE       HELD BY");
  EXPECT_EQ(ListColumns(30, kLongest).Line(kLine), "a-name-…  read by 12  web1:42…");
}

TEST(ListColumnsTest, LeaveOutKindThenLeaseThenWaiting) {
  EXPECT_EQ(Heading(80), "NAME                  KIND        STATE       LEASE   WAITING  HELD BY");
  EXPECT_EQ(Heading(70), "NAME                  STATE       LEASE   WAITING  HELD BY");
  EXPECT_EQ(Heading(60), "NAME                  STATE       WAITING  HELD BY");
  EXPECT_EQ(Heading(51), "NAME                  STATE       HELD BY");
}

TEST(ListColumnsTest, FitAnyTerminal) {
  for (size_t width = 1; width <= 200; ++width) {
    for (const size_t longest : {size_t{4}, size_t{19}, kLongest}) {
      ListCells line = kLine;
      line[0].resize(longest);
      EXPECT_LE(Columns(ListColumns(width, longest).Line(line)), width);
    }
  }
}

TEST(ListColumnsTest, CutNothingInAPipe) {
  EXPECT_EQ(ListColumns(0, kLongest).Line(kLine),
            kLine[0] + "  read_write  read by 12  29.9s   3w       " + kLine[5]);
  ListCells longer = kLine;
  longer[0] = std::string(70, 'x');
  EXPECT_EQ(ListColumns(0, 70).Line(longer).substr(0, 75), longer[0] + "  rea");
}

}  // namespace
}  // namespace redlatch::cli
