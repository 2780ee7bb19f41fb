#include "tests/support/subprocess.h"

#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/process_stats.h"
#include "tests/support/temp_dir.h"

namespace redlatch::support {
namespace {

using ::testing::Optional;
using ::testing::StartsWith;

TEST(Child, ForkedBodyTalksInLinesAndReturnsItsStatus) {
  const std::string greeting = "hello";
  const auto child = Child::Fork([&](LinePipe& parent) {
    parent.WriteLine(greeting);
    parent.WriteLine("");
    return parent.ReadLine() == "go" ? 7 : 1;
  });
  EXPECT_EQ(child->pipe().ReadLine(), "hello");
  EXPECT_EQ(child->pipe().ReadLine(), "");
  EXPECT_TRUE(child->pipe().WriteLine("go"));
  EXPECT_EQ(child->Wait().code, 7);
  EXPECT_EQ(child->pid(), -1);
  EXPECT_EQ(child->pipe().ReadLine(), std::nullopt);
  EXPECT_FALSE(child->pipe().WriteLine("too late"));
}

TEST(Child, ReadLineGivesUpInTime) {
  const auto child = Child::Fork([](LinePipe& parent) { return parent.ReadLine().has_value(); });
  const base::Instant before = base::Now();
  EXPECT_EQ(child->pipe().ReadLine(absl::Milliseconds(30)), std::nullopt);
  EXPECT_GE(base::Now() - before, absl::Milliseconds(30));
  EXPECT_EQ(child->WaitFor(absl::Milliseconds(1)), std::nullopt);
  child->pipe().CloseWrite();
  EXPECT_TRUE(child->Wait().success());
}

TEST(Child, KillIsReported) {
  const auto child = Child::Fork([](LinePipe&) { return pause(); });
  child->Signal(SIGTERM);
  EXPECT_EQ(child->Wait().signal, SIGTERM);
  EXPECT_FALSE(child->Wait().success());
  child->Kill();  // nothing to do
}

TEST(Child, EndsWithItsObject) {
  pid_t pid = 0;
  {
    const auto child = Child::Fork([](LinePipe&) { return pause(); });
    pid = child->pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(Child, StopHoldsItUntilContinued) {
  const auto child = Child::Fork([](LinePipe& parent) {
    while (parent.WriteLine("tick")) parent.ReadLine();
    return 0;
  });
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(child->pipe().ReadLine(), "tick");
    child->Stop();
    child->pipe().WriteLine("tock");
    EXPECT_EQ(child->pipe().ReadLine(absl::Milliseconds(10)), std::nullopt);
    child->Continue();
  }
  EXPECT_EQ(child->pipe().ReadLine(), "tick");
}

TEST(Child, AnEarlierChildsDeathIsSeenThoughALaterOneLives) {
  const auto first = Child::Fork([](LinePipe&) { return 0; });
  const auto second = Child::Fork([](LinePipe&) { return pause(); });
  first->Wait();
  const base::Instant before = base::Now();
  EXPECT_EQ(first->pipe().ReadLine(), std::nullopt);
  EXPECT_LT(base::Now() - before, absl::Seconds(5));
}

TEST(Child, OutlivesTheThreadThatStartedIt) {
  std::unique_ptr<Child> child;
  std::thread([&] {
    child = Child::Fork([](LinePipe& parent) { return parent.ReadLine() == "go" ? 0 : 1; });
  }).join();
  child->pipe().WriteLine("go");
  EXPECT_TRUE(child->Wait().success());
}

TEST(Child, ExecSpeaksThroughStandardInputAndOutput) {
  const auto child = Child::Exec({"sh", "-c", "read x; echo \"$WORD $x\"; exit 3"},
                                 {.environment = {"WORD=hello"}});
  child->pipe().WriteLine("world");
  EXPECT_EQ(child->pipe().ReadLine(), "hello world");
  EXPECT_EQ(child->Wait().code, 3);
}

TEST(Child, ExecHandsNoDescriptorOn) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // not close-on-exec
  const auto child = Child::Exec(
      {"sh", "-c", "for i in \"$@\"; do [ -e /proc/$$/fd/$i ] && echo $i; done; echo end", "sh",
       "0", "3", "4", std::to_string(ends[0]), std::to_string(ends[1])});
  EXPECT_EQ(child->pipe().ReadLine(), "0");
  EXPECT_EQ(child->pipe().ReadLine(), "end");
  close(ends[0]);
  close(ends[1]);
}

TEST(Child, ExecWritesToAFile) {
  const TempDir directory;
  const std::string path = directory.path() + "/output";
  EXPECT_TRUE(Child::Exec({"sh", "-c", "cat; echo out; echo err >&2"}, {.output_path = path})
                  ->Wait()
                  .success());
  EXPECT_EQ(Child::Exec({"cat", path})->pipe().ReadLine(), "out");
}

TEST(Child, ExecOfNoProgramExitsWith127) {
  EXPECT_EQ(Child::Exec({"/nowhere/program"})->Wait().code, 127);
}

TEST(Child, ExecOnATerminalIsTypedTo) {
  if (!CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const auto child = Child::Exec({"sh", "-c",
                                  "trap 'echo interrupted' INT; echo $(stty size); while ! read x; "
                                  "do :; done; tty >&2; exit 3"},
                                 {.columns = 77});
  EXPECT_EQ(child->pipe().ReadLine(), "24 77\r");
  child->pipe().WriteLine("\x03");  // and an empty line
  EXPECT_EQ(child->pipe().ReadLine(), "^C\r");
  EXPECT_EQ(child->pipe().ReadLine(), "interrupted\r");
  EXPECT_THAT(child->pipe().ReadLine(), Optional(StartsWith("/dev/pts/")));
  EXPECT_EQ(child->Wait().code, 3);
  EXPECT_EQ(child->pipe().ReadLine(), std::nullopt);
}

TEST(Child, ATerminalThatHangsUpEndsIt) {
  if (!CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const auto child = Child::Exec({"sh", "-c", "echo ready; sleep 60"}, {.columns = 80});
  EXPECT_EQ(child->pipe().ReadLine(), "ready\r");
  child->pipe().Close();
  EXPECT_EQ(child->Wait().signal, SIGHUP);
}

REDLATCH_CHILD(Echo) {
  for (const std::string& arg : args) parent.WriteLine(arg);
  std::thread([&] { parent.WriteLine("from a thread"); }).join();
  return 5;
}

TEST(SpawnedChild, GetsItsArgumentsAndHasThreads) {
  const auto child = SpawnChild("Echo", {"one", "", "--gtest_filter=none", "two\nlines"});
  for (const char* line : {"one", "", "--gtest_filter=none", "two", "lines", "from a thread"}) {
    EXPECT_EQ(child->pipe().ReadLine(), line);
  }
  EXPECT_EQ(child->Wait().code, 5);
}

REDLATCH_CHILD(FailAnExpectation) {
  EXPECT_EQ(args.size(), 1u) << "(this failure is part of a test that succeeds)";
  return 0;
}

TEST(SpawnedChild, ReportsAFailedExpectation) {
  EXPECT_TRUE(SpawnChild("FailAnExpectation", {"argument"})->Wait().success());
  EXPECT_EQ(SpawnChild("FailAnExpectation")->Wait().code, 1);
}

REDLATCH_CHILD(ParentOfASleeper) {
  const auto sleeper = Child::Exec({"sleep", "1000"});
  parent.WriteLine(std::to_string(sleeper->pid()));
  parent.ReadLine();
  return 0;
}

TEST(SpawnedChild, ItsOwnChildrenDieWhenItIsKilled) {
  const auto child = SpawnChild("ParentOfASleeper");
  const auto sleeper = child->pipe().ReadLine();
  ASSERT_TRUE(sleeper.has_value());
  EXPECT_GT(ResidentBytes(std::stoi(*sleeper)), 0);
  child->Kill();
  EXPECT_TRUE(Await([&] { return ResidentBytes(std::stoi(*sleeper)) == 0; }));
}

}  // namespace
}  // namespace redlatch::support
