// Names of latches, and what else may have them.
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/simple_lock.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/conformance/api/names.h"

namespace redlatch::conformance {
namespace {

class LatchNaming : public LatchConformance {
 protected:
  const Client client_ = NewClient();
  const Client other_ = NewClient();
};

TEST_P(LatchNaming, TakesAnyBytesWhoseKeysCanShareASlot) {
  for (const std::string& name : GoodNames(GetParam().deployment.key_prefix)) {
    SCOPED_TRACE(absl::CHexEscape(name.substr(0, 40)));
    const auto latch = NewLatch(client_, 2, name);
    EXPECT_EQ(latch->name(), name);
    ASSERT_OK(latch->CountDown());
    EXPECT_TRUE(IsThere(name));
    Crew crew;
    crew.Start([&] { EXPECT_OK(PatientWait(*NewLatch(other_, 2, name))); });
    EXPECT_TRUE(Await([&] { return server().Command({"KEYS", "*.queue"}).elements.size() == 1; }));
    EXPECT_EQ(CodeOf(latch->CountDown(7)), kMisuse);
    EXPECT_OK(latch->CountDown());
    crew.Join();
    server().Command({"FLUSHALL"});
  }
}

TEST_P(LatchNaming, RefusesTheOthersAndTouchesNothing) {
  for (const std::string& name : BadNames(GetParam().deployment.key_prefix)) {
    SCOPED_TRACE(absl::CHexEscape(name.substr(0, 40)));
    const auto latch = NewLatch(client_, 2, name);
    EXPECT_EQ(CodeOf(latch->CountDown()), kBadInput);
    EXPECT_EQ(CodeOf(latch->Wait()), kBadInput);
    EXPECT_EQ(CodeOf(latch->Count()), kBadInput);
    EXPECT_EQ(latch->name(), name);
  }
  EXPECT_EQ(server().LockKeys().size(), 0);
}

TEST_P(LatchNaming, LeavesWhatIsNoLatchAsItIs) {
  const std::vector<std::vector<std::string>> others = {
      {"RPUSH", Key(), "somebody", "else's"},
      {"HSET", Key(), "kind", "of magic"},
      {"SET", Key(), "text"},
  };
  for (const std::vector<std::string>& command : others) {
    server().Command(command);
    const std::string before = server().Text({"DUMP", Key()});
    const auto latch = NewLatch(client_, 2);
    EXPECT_EQ(CodeOf(latch->CountDown()), kMisuse) << command[0];
    EXPECT_EQ(CodeOf(latch->Wait()), kMisuse);
    EXPECT_EQ(CodeOf(Look(*latch)), kMisuse);
    EXPECT_EQ(CodeOf(latch->Count()), kMisuse);
    EXPECT_EQ(Thrown([&] { latch->arrive_and_wait(); }), kMisuse);
    EXPECT_EQ(server().Text({"DUMP", Key()}), before);
    EXPECT_EQ(server().LockKeys().size(), 1);
    server().Command({"DEL", Key()});
    EXPECT_OK(latch->CountDown()) << "the name is free now";
    server().Command({"FLUSHALL"});
  }
}

TEST_P(LatchNaming, OfALatchAndALockOnOneClientIsMisuse) {
  SimpleLock lock(client_, kName);
  auto lease = lock.Acquire();
  ASSERT_OK(lease);
  const auto latch = NewLatch(client_, 2);
  EXPECT_EQ(CodeOf(latch->CountDown()), kMisuse);
  EXPECT_EQ(CodeOf(Look(*latch)), kMisuse);
  EXPECT_TRUE(lease->valid());
  EXPECT_OK(lease->Release());
}

TEST_P(LatchNaming, OfALatchAndALockOnTwoClientsIsMisuseWhileTheyAreThere) {
  ReentrantLock lock(client_, kName);
  auto lease = lock.Acquire();
  ASSERT_OK(lease);
  const auto latch = NewLatch(other_, 2);
  EXPECT_EQ(CodeOf(latch->CountDown()), kMisuse);
  EXPECT_EQ(CodeOf(latch->Wait({.wait = absl::Milliseconds(50)})), kMisuse);
  EXPECT_TRUE(lease->valid());
  EXPECT_OK(lease->Release());
  EXPECT_OK(latch->CountDown());
  EXPECT_EQ(CodeOf(Try(lock)), kMisuse);
  EXPECT_EQ(CountOf(*latch), 1);
}

INSTANTIATE_FOR_LATCH(LatchNaming);

}  // namespace
}  // namespace redlatch::conformance
