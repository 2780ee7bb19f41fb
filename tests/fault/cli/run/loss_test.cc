// Tests that a command whose lock is lost, or whose `redlatch run` is killed, ends with all its
// processes before another client can get the lock.
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

struct RedlatchRunLossTest : RedlatchRunTest {
  RedlatchRunLossTest() : proxy_({.port = server_->port()}) {}

  // A run whose command has two processes, connected through the proxy.
  struct Run {
    std::unique_ptr<support::Child> redlatch;
    EndOf one;
    EndOf two;
  };
  Run StartFamily(const Words& options, const std::string& to_term) const {
    auto redlatch = Start(Join(Join(options, {"job", "--"}), Family(to_term)),
                          {"REDLATCH_URL=" + proxy_.url()});
    EndOf one = ProcessFrom(*redlatch);
    EndOf two = ProcessFrom(*redlatch);
    return {.redlatch = std::move(redlatch), .one = std::move(one), .two = std::move(two)};
  }

  static bool BothEnd(const Run& run) {
    return run.one.Within(absl::Seconds(20)) && run.two.Within(absl::Seconds(20));
  }

  // The keeper is the parent of the command, and the command is the parent of the other process.
  static pid_t KeeperOf(const Run& run) {
    const pid_t front = run.redlatch->pid();
    const pid_t parent = ParentOf(run.one.pid());
    return ParentOf(parent) == front ? parent : ParentOf(parent);
  }

  // Expects that no process of the run is alive when the next client gets the lock.
  void ExpectNoOverlap(const Run& run) const {
    Client client = Connect(server_->url());
    const auto lease = Must(SimpleLock(client, "job").Acquire({.wait = absl::Seconds(60)}));
    EXPECT_TRUE(run.one.Within(absl::ZeroDuration()));
    EXPECT_TRUE(run.two.Within(absl::ZeroDuration()));
  }

  TcpProxy proxy_;
};

TEST_F(RedlatchRunLossTest, CommandGetsSigtermBeforeTheLeaseEnds) {
  const Run run = StartFamily({"--lease", "2s", "--grace", "900ms"}, "echo told; exit 0");
  proxy_.Drop(Direction::kToClient);
  ExpectNoOverlap(run);
  EXPECT_EQ(run.redlatch->pipe().ReadLine(), "told");
  EXPECT_EQ(CodeOf(*run.redlatch), 122);
  EXPECT_THAT(Errors(), HasSubstr("lock \"job\" is about to be lost"));
}

TEST_F(RedlatchRunLossTest, SlowServerIsReachedWithoutAWait) {
  proxy_.Delay(Direction::kToClient, absl::Milliseconds(150));
  const Words far = {"REDLATCH_URL=" + proxy_.url()};
  EXPECT_EQ(Code({"--wait", "0", "job", "--", "true"}, far), 0) << Errors();
  EXPECT_EQ(Code({"--wait", "10ms", "job", "--", "true"}, far), 0) << Errors();
  const auto holder = Start({"job", "--", "sh", "-c", "echo held; exec sleep 60"});
  ASSERT_EQ(holder->pipe().ReadLine(), "held");
  EXPECT_EQ(Code({"--wait", "0", "job", "--", "echo", "wrong"}, far), 120) << Errors();
  proxy_.Drop(Direction::kToClient);
  EXPECT_EQ(Code({"--wait", "0", "job", "--", "echo", "wrong"}, far), 121) << Errors();
}

TEST_F(RedlatchRunLossTest, CommandEndsWhenItsTerminalHangsUp) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  // As with ssh -t, there is no shell that would get SIGHUP and forward it.
  const auto run =
      StartOnTerminal("exec " REDLATCH_COMMAND " run job -- sh -c 'echo $$; exec sleep 60'");
  const EndOf command = ProcessFrom(*run);
  run->pipe().Close();
  EXPECT_TRUE(command.Within(absl::Seconds(10)));
  const Client client = Connect(server_->url());
  EXPECT_TRUE(SimpleLock(client, "job").Acquire({.wait = absl::Seconds(10)}).ok());
}

TEST_F(RedlatchRunLossTest, ReportsALockThatTheServerHasForgotten) {
  const Run run = StartFamily({"--lease", "3s"}, "exit 0");
  server_->Text({"FLUSHALL"});
  EXPECT_EQ(CodeOf(*run.redlatch), 122);
  EXPECT_THAT(Errors(), HasSubstr("is lost (the server no longer has it: "));
  EXPECT_TRUE(BothEnd(run));
}

TEST_F(RedlatchRunLossTest, StoppedCommandKeepsTheLockAndEndsWithIt) {
  const Run run = StartFamily({"--lease", "2s"}, "exit 0");
  kill(run.one.pid(), SIGSTOP);
  kill(run.two.pid(), SIGSTOP);
  EXPECT_FALSE(run.one.Within(absl::Seconds(3)));  // longer than the lease
  EXPECT_TRUE(IsTaken("job"));
  proxy_.Drop(Direction::kToClient);
  ExpectNoOverlap(run);
  EXPECT_EQ(CodeOf(*run.redlatch), 122);
}

TEST_F(RedlatchRunLossTest, CommandGoesOnWithOnLostWarn) {
  for (const auto& [own, expected] : {std::pair(0, 122), std::pair(4, 4)}) {
    const auto run = Start({"--on-lost=warn", "--lease", "500ms", "job", "--", "sh", "-c",
                            "echo on; read line; exit " + std::to_string(own)},
                           {"REDLATCH_URL=" + proxy_.url()});
    ASSERT_EQ(run->pipe().ReadLine(), "on");
    proxy_.Drop(Direction::kToClient);
    EXPECT_TRUE(Await([&] { return Errors().find("goes on without it") != std::string::npos; }));
    EXPECT_THAT(Errors(), HasSubstr("lock \"job\" is lost"));
    run->pipe().WriteLine("go");
    EXPECT_EQ(CodeOf(*run), expected);
    proxy_.Heal();
  }
}

TEST_F(RedlatchRunLossTest, KilledRedlatchEndsTheCommandAndReleases) {
  const Run run = StartFamily({"--lease", "60s", "--grace", "300ms"}, ":");
  const EndOf keeper(KeeperOf(run));
  kill(run.redlatch->pid(), SIGKILL);
  ASSERT_TRUE(BothEnd(run));
  EXPECT_TRUE(keeper.Within(absl::Seconds(10)));
  // Long before the lease ends.
  EXPECT_EQ(Code({"job", "--wait", "0", "--", "true"}), 0);
}

TEST_F(RedlatchRunLossTest, UnansweredReleaseKeepsExitCode) {
  const auto run = Start({"--lease", "60s", "job", "--", "sh", "-c", "echo on; read line; exit 4"},
                         {"REDLATCH_URL=" + proxy_.url()});
  ASSERT_EQ(run->pipe().ReadLine(), "on");
  proxy_.Drop(Direction::kToClient);
  run->pipe().WriteLine("go");
  EXPECT_EQ(CodeOf(*run), 4);
  EXPECT_THAT(Errors(), HasSubstr("could not be released"));
}

TEST_F(RedlatchRunLossTest, CommandEndsIfBothProcessesAreKilled) {
  const Run run = StartFamily({"--lease", "60s"}, ":");
  const pid_t keeper = KeeperOf(run);
  const pid_t command = ParentOf(run.one.pid()) == keeper ? run.one.pid() : run.two.pid();
  run.redlatch->Stop();
  kill(keeper, SIGSTOP);
  kill(keeper, SIGKILL);
  kill(run.redlatch->pid(), SIGKILL);
  EXPECT_TRUE((command == run.one.pid() ? run.one : run.two).Within(absl::Seconds(10)));
}

TEST_F(RedlatchRunLossTest, KilledWaiterLeavesTheQueue) {
  const auto holder = Start({"job", "--", "sh", "-c", "echo held; read line"});
  ASSERT_EQ(holder->pipe().ReadLine(), "held");
  const auto waiter = Start({"job", "--", "echo", "wrong"});
  auto client = Connect(server_->url());
  const auto waiting = [&](int64_t count) {
    return Await([&] {
      const auto info = SimpleLock(client, "job").Inspect();
      return info.ok() && info->waiting == count;
    });
  };
  ASSERT_TRUE(waiting(1));
  waiter->Kill();
  EXPECT_TRUE(waiting(0));
}

TEST_F(RedlatchRunLossTest, CommandIsKilledIfTheKeeperIsKilled) {
  const Run run = StartFamily({"--lease", "5s"}, ":");
  kill(KeeperOf(run), SIGKILL);
  ExpectNoOverlap(run);
  EXPECT_EQ(CodeOf(*run.redlatch), 122);
  EXPECT_THAT(Errors(), HasSubstr("was killed"));
}

TEST_F(RedlatchRunLossTest, CommandIsKilledInTimeIfTheKeeperHangs) {
  const Run run = StartFamily({"--lease", "3s"}, ":");
  kill(KeeperOf(run), SIGSTOP);
  ExpectNoOverlap(run);
  EXPECT_EQ(CodeOf(*run.redlatch), 122);
}

TEST_F(RedlatchRunLossTest, StoppedFrontStillRenewsAndHandlesTheLoss) {
  const Run run = StartFamily({"--lease", "2s"}, ":");
  run.redlatch->Stop();
  EXPECT_FALSE(run.one.Within(absl::Seconds(3)));  // longer than the lease
  EXPECT_TRUE(IsTaken("job"));
  proxy_.Drop(Direction::kToClient);
  ExpectNoOverlap(run);
  run.redlatch->Continue();
  EXPECT_EQ(CodeOf(*run.redlatch), 122);
}

// Tests that a leader's command ends before the next term, and that the candidate campaigns again.
struct RedlatchElectLossTest : RedlatchRunLossTest {
  // Starts a candidate whose command prints its process and its epoch, and keeps running.
  std::unique_ptr<support::Child> Candidate() const {
    return StartRedlatch({"elect", "--lease", "2s", "--stop-margin", "500ms", "job", "--", "sh",
                          "-c", "echo $$; echo $REDLATCH_TOKEN; exec sleep 1000"},
                         {"REDLATCH_URL=" + proxy_.url()});
  }
  static uint64_t EpochFrom(support::Child& elect) {
    uint64_t epoch = 0;
    EXPECT_TRUE(absl::SimpleAtoi(elect.pipe().ReadLine().value_or(""), &epoch));
    return epoch;
  }
  // Expects that the leader's command has ended when the next candidate leads.
  void ExpectNoOverlap(const EndOf& command, uint64_t epoch) const {
    const Client client = Connect(server_->url());
    const auto leads = Must(Election(client, "job").Campaign("", {.wait = absl::Seconds(60)}));
    EXPECT_TRUE(command.Within(absl::ZeroDuration()));
    EXPECT_GT(leads.epoch().value(), epoch);
  }
};

TEST_F(RedlatchElectLossTest, CommandEndsBeforeTheNextTermAndCampaignsAgain) {
  const auto elect = Candidate();
  const EndOf command = ProcessFrom(*elect);
  const uint64_t epoch = EpochFrom(*elect);
  proxy_.Drop(Direction::kToClient);
  ExpectNoOverlap(command, epoch);
  EXPECT_THAT(Errors(), HasSubstr("the leadership of \"job\" is about to be lost"));
  proxy_.Heal();
  const EndOf again = ProcessFrom(*elect);
  EXPECT_GT(EpochFrom(*elect), epoch);
}

TEST_F(RedlatchElectLossTest, CampaignsAgainIfTheKeeperHangsOrIsKilled) {
  const auto elect = Candidate();
  uint64_t epoch = 0;
  for (const int signal : {SIGSTOP, SIGKILL}) {
    const EndOf command = ProcessFrom(*elect);
    epoch = EpochFrom(*elect);
    const EndOf keeper(ParentOf(command.pid()));
    kill(keeper.pid(), signal);
    ExpectNoOverlap(command, epoch);
    EXPECT_TRUE(keeper.Within(absl::Seconds(10)));
  }
  const EndOf last = ProcessFrom(*elect);
  EXPECT_GT(EpochFrom(*elect), epoch);
  elect->Signal(SIGTERM);
  EXPECT_EQ(CodeOf(*elect), 128 + SIGTERM);
}

TEST_F(RedlatchElectLossTest, KilledRedlatchEndsTheCommandAndResigns) {
  const auto elect = Candidate();
  const EndOf command = ProcessFrom(*elect);
  const uint64_t epoch = EpochFrom(*elect);
  elect->Kill();
  ExpectNoOverlap(command, epoch);
}

}  // namespace
}  // namespace redlatch
