// What `redlatch run` tells of a lock that it has to wait for.

#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

using ::testing::ContainsRegex;

class RedlatchWaitTest : public RedlatchLookTest {
 protected:
  // The name by which messages call this process, of a client that calls itself so.
  static std::string Prose(const std::string& program) {
    return absl::StrCat(program, " \\(", Host(), ", pid ", getpid(), "\\)");
  }

  const Client client_ = NewClient({.program = "billing"});
  const Client other_ = NewClient({.program = "other"});
};

TEST_F(RedlatchWaitTest, NamesTheHolderOfABusyLock) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  const Outcome once = Redlatch({"run", "--wait", "0", "job", "--", "true"});
  EXPECT_EQ(once.code, 120);
  EXPECT_THAT(once.errors, ContainsRegex("^redlatch: lock \"job\" is busy: held by " +
                                         Prose("billing") + "\n$"));
  const Outcome waited = Redlatch({"run", "--wait", "50ms", "job", "--", "true"});
  EXPECT_EQ(waited.code, 120);
  EXPECT_THAT(waited.errors, ContainsRegex("^redlatch: lock \"job\" was busy for 50ms: held by " +
                                           Prose("billing") + "\n$"));
}

TEST_F(RedlatchWaitTest, ShowsOnATerminalWhomItWaitsForAndItsPlace) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  SimpleLock theirs(other_, "job");
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Acquire(how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue"));
  const Outcome narrow = OnTerminal("run --wait 1500ms job -- true", "", 40);
  EXPECT_EQ(narrow.code, 120);
  EXPECT_THAT(narrow.output,
              AllOf(ContainsRegex("\r(redlatch: waiting [01]s?[0-9ms]* for lock \"job\", held by " +
                                  Prose("billing") + "; 1 ahead in line)"),
                    // It took three rows or so, and is gone before what is said at the end.
                    ContainsRegex("line\x1b\\[[1-4]A\r\x1b\\[Jredlatch: lock \"job\" was busy")));
}

TEST_F(RedlatchWaitTest, IsSilentWithoutATerminal) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  const Outcome outcome =
      Redlatch({"run", "--wait", "800ms", "--busy-code", "0", "job", "--", "true"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.errors, IsEmpty());
}

TEST_F(RedlatchWaitTest, ShowsNothingIfTheLockIsFree) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const Outcome outcome = OnTerminal("run job -- echo ran");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("ran"), Not(HasSubstr("waiting"))));
}

TEST_F(RedlatchWaitTest, WarnsOfALockThatItsOwnCommandIsRunUnder) {
  const std::string inner = absl::StrCat(REDLATCH_COMMAND, " run --wait 1s job -- true");
  const Outcome outcome =
      Redlatch({"run", "job", "--", REDLATCH_COMMAND, "run", "between", "--", "sh", "-c", inner});
  EXPECT_EQ(outcome.code, 120);
  EXPECT_THAT(outcome.errors,
              AllOf(ContainsRegex("warning: lock \"job\" is held by redlatch run: redlatch \\(.*, "
                                  "under which this command runs: it waits for itself"),
                    HasSubstr("was busy for 1s")));
}

TEST_F(RedlatchWaitTest, DoesNotWarnIfTheInnerOneGetsTheLock) {
  const Outcome shared = Redlatch({"run", "--shared", "data", "--", REDLATCH_COMMAND, "run",
                                   "--shared", "data", "--", "sleep", "0.7"});
  EXPECT_EQ(shared.code, 0);
  EXPECT_THAT(shared.errors, IsEmpty());
}

}  // namespace
}  // namespace redlatch
