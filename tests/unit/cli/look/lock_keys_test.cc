#include "src/cli/look/lock_keys.h"

#include "tests/unit/engine/protocol/random_names.h"

namespace redlatch::cli {
namespace {

TEST(LockKeys, EveryKeyOfALockTellsItsName) {
  for (const std::string& main : engine::RandomMainKeys(5'000, 7)) {
    EXPECT_EQ(ReadLockKey(main).name, main);
    EXPECT_EQ(ReadLockKey(main).part, kMain);
    for (const engine::KeyNames& names : engine::AllKeyNames()) {
      for (const std::string& key : engine::OtherKeysOf(main, names)) {
        const LockKey of = ReadLockKey(key);
        ASSERT_EQ(of.name, main) << key;
        ASSERT_EQ(engine::AuxiliaryKey(main, of.suffix), key);
        ASSERT_NE(of.part, kMain) << key;
      }
    }
  }
}

TEST(LockKeys, ARightPartIsReadOffTheSuffix) {
  EXPECT_EQ(ReadLockKey("redlatch:2:{x}:fence").part, kFence);
  EXPECT_EQ(ReadLockKey("redlatch:rw:{x}:readers").part, kReaders);
  EXPECT_EQ(ReadLockKey("redlatch:2:{x}:rw.writers").part, kWriters);
  EXPECT_EQ(ReadLockKey("redlatch:2:{x}:semaphore.permits").part, kPermits);
  EXPECT_EQ(ReadLockKey("redlatch:2.tag:{x}:x.own.queue").part, kQueue);
  EXPECT_EQ(ReadLockKey("redlatch:2:{x}:simple.waiters").part, kNoPart);
  EXPECT_EQ(ReadLockKey("redlatch:client:x").part, kNoPart);
  EXPECT_EQ(ReadLockKey("redlatch:client:x").name, "");
  EXPECT_EQ(ReadLockKey("x}").part, kNoPart) << "which no lock can be called";
}

TEST(LockKeys, QueuesAreThoseOfAKind) {
  for (const std::string kind :
       {"simple", "reentrant", "read_write", "semaphore", "latch", "own"}) {
    EXPECT_EQ(KindOfQueue(QueueSuffix(kind)), kind);
  }
  EXPECT_EQ(QueueSuffix("read_write"), "rw.queue");
  EXPECT_EQ(WaitersSuffix("own"), "x.own.waiters");
}

TEST(LockKeys, AQuorumsServerStoresAHoldAndItsAttempt) {
  const std::string hold = std::string(32, 'a') + ":7";
  EXPECT_EQ(QuorumHoldIn(hold + " 12"), hold);
  for (const char* const rest : {"", " ", " x", " 1 2", " -1", "k1"}) {
    EXPECT_EQ(QuorumHoldIn(hold + rest), "") << rest;
  }
  EXPECT_EQ(QuorumHoldIn("another program 1"), "");
}

TEST(LockKeys, KindsHaveTheVersionOfTheProtocol) {
  EXPECT_EQ(KindIn("reentrant/2"), "reentrant");
  for (const char* const other : {"reentrant", "reentrant/3", "cooldown", "cooldown/2", ""}) {
    EXPECT_EQ(KindIn(other), other);
  }
  EXPECT_TRUE(IsKindOfOurs("reentrant/3"));
  EXPECT_FALSE(IsKindOfOurs("cooldown/2"));
  EXPECT_FALSE(IsKindOfOurs("simple/2")) << "is no hash";
}

}  // namespace
}  // namespace redlatch::cli
