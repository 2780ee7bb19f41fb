// Tests the test support: servers and children end with their objects, figures of processes are
// right, and histories survive a kill.

#include "tests/support/history_check/history_checker.h"
#include "tests/support/history_writer.h"
#include "tests/support/live_testing.h"

namespace redlatch::support {
namespace {

// A zombie has no memory, and counts as gone: its new parent reaps it some time.
bool Runs(pid_t pid) { return ResidentBytes(pid) > 0; }

TEST(RedisServer, LeavesNothingBehind) {
  auto server = RedisServer::Start({.append_only = true});
  const pid_t pid = server->pid();
  const std::string directory = server->directory();
  const int descriptors = OpenDescriptors();
  server->Restart();
  EXPECT_NE(server->Text({"PING"}), "");
  server.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_LT(OpenDescriptors(), descriptors + 1);
}

REDLATCH_CHILD(CrashWithAServer) {
  std::unique_ptr<RedisServer> server;
  const auto start = [&server] { server = RedisServer::Start(); };
  if (args.at(0) == "started by a thread that ended") {
    std::thread(start).join();
  } else {
    start();
  }
  parent.WriteLine(std::to_string(server->pid()));
  parent.WriteLine(server->directory());
  parent.ReadLine();
  raise(SIGABRT);
  return 0;
}

TEST(RedisServer, DiesWithACrashedProcess) {
  for (const char* how : {"started by main", "started by a thread that ended"}) {
    const auto child = SpawnChild("CrashWithAServer", {how});
    const auto pid = child->pipe().ReadLine();
    const auto directory = child->pipe().ReadLine();
    ASSERT_TRUE(pid.has_value() && directory.has_value());
    EXPECT_TRUE(Runs(std::stoi(*pid)));
    child->pipe().WriteLine("crash");
    EXPECT_EQ(child->Wait().signal, SIGABRT);
    EXPECT_TRUE(Await([&] { return !Runs(std::stoi(*pid)); }));
    // Its directory is removed when any process makes the next one.
    const TempDir next;
    EXPECT_TRUE(Await([&] { return !std::filesystem::exists(*directory); }));
  }
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

TEST(Child, DeathIsSeenWhileALaterChildLives) {
  const auto first = Child::Fork([](LinePipe&) { return 0; });
  const auto second = Child::Fork([](LinePipe&) { return pause(); });
  first->Wait();
  const base::Instant before = base::Now();
  EXPECT_EQ(first->pipe().ReadLine(), std::nullopt);
  EXPECT_LT(base::Now() - before, absl::Seconds(5));
}

TEST(Child, ExecPassesNoDescriptors) {
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

TEST(SpawnedChild, ItsChildrenDieWhenItIsKilled) {
  const auto child = SpawnChild("ParentOfASleeper");
  const auto sleeper = child->pipe().ReadLine();
  ASSERT_TRUE(sleeper.has_value());
  EXPECT_GT(ResidentBytes(std::stoi(*sleeper)), 0);
  child->Kill();
  EXPECT_TRUE(Await([&] { return ResidentBytes(std::stoi(*sleeper)) == 0; }));
}

TEST(HistoryWriter, KeepsTheEventsOfAKilledProcess) {
  const TempDir directory;
  const std::vector<std::string> files = {directory.path() + "/child",
                                          directory.path() + "/parent"};
  HistoryWriter parent(files[1], -1);
  const auto child = Child::Fork([&](LinePipe& pipe) {
    HistoryWriter history(files[0], 3);
    const uint32_t held = history.Invoke("o", history::Kind::kLock, 7, /*waits=*/false);
    history.Held(held, 42);
    history.Remaining(held, base::Now(), absl::Hours(1));
    history.Refused(history.Invoke("p", history::Kind::kLock, -8, false), /*certainly=*/true);
    history.Invoke("q", history::Kind::kLock, 7, /*waits=*/true);
    pipe.WriteLine("written");
    pipe.ReadLine();
    return 0;
  });
  ASSERT_EQ(child->pipe().ReadLine(), "written");
  child->Kill();
  parent.EndCallsOf(files[0]);

  // Checks that no call still waits: the one that did has ended with its process.
  parent.Note({.what = history::What::kCalm, .amount = 1});
  auto history = history::ReadHistory(files);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_THAT(history->events, SizeIs(8));
  EXPECT_EQ(history->events[0].call, "3.0");
  EXPECT_EQ(history->events[0].owner, "process3.7");
  EXPECT_EQ(history->events[3].owner, "owner8");
  EXPECT_EQ(history->events[6].what, history::What::kUnknown);
  history::HistoryChecker checker = history::Judge(*history);
  checker.Finish(base::Now().nanos());
  EXPECT_THAT(checker.violations(), IsEmpty());

  // The child's hold is certain for an hour, although the child is dead.
  const uint32_t late = parent.Invoke("o", history::Kind::kLock, 1, /*waits=*/false);
  parent.Held(late, 43);
  parent.Remaining(late, base::Now(), absl::Hours(1));
  EXPECT_THAT(history::Judge(*history::ReadHistory(files)).violations(), SizeIs(1));
}

}  // namespace
}  // namespace redlatch::support
