#include "tests/support/subprocess.h"

#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/process_stats.h"

namespace redlatch::support {
namespace {

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

TEST(Child, AnEarlierChildsDeathIsSeenThoughALaterOneLives) {
  const auto first = Child::Fork([](LinePipe&) { return 0; });
  const auto second = Child::Fork([](LinePipe&) { return pause(); });
  first->Wait();
  const base::Instant before = base::Now();
  EXPECT_EQ(first->pipe().ReadLine(), std::nullopt);
  EXPECT_LT(base::Now() - before, absl::Seconds(5));
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
