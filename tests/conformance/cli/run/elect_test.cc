// Tests `redlatch elect`, which runs a command while it leads, and `redlatch leader`.
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

struct RedlatchElectTest : RedlatchOutputTest {
  std::unique_ptr<support::Child> Elect(const Words& words) const {
    return StartRedlatch(Join({"elect"}, words));
  }
  // Starts a candidate whose command prints its epoch and keeps running.
  std::unique_ptr<support::Child> Candidate(const std::string& value) const {
    return Elect(
        {"job", "--value", value, "--", "sh", "-c", "echo $REDLATCH_TOKEN; exec sleep 1000"});
  }
  static uint64_t EpochFrom(support::Child& elect) {
    uint64_t epoch = 0;
    const auto line = elect.pipe().ReadLine(absl::Seconds(30));
    EXPECT_TRUE(line && absl::SimpleAtoi(*line, &epoch)) << line.value_or("nothing");
    return epoch;
  }
  bool AwaitCandidates(int64_t count) const {
    return AwaitQueued("redlatch:2:{job}:election.queue", count);
  }
  bool AwaitErrors(const std::string& text) const {
    return support::Await([&] { return Errors().find(text) != std::string::npos; });
  }
  static int CodeAfter(support::Child& elect, int signal) {
    elect.Signal(signal);
    return CodeOf(elect);
  }

  const Client client_ = NewClient({.program = "billing"});
  Election election_{client_, "job"};
};

TEST_F(RedlatchElectTest, NextCandidateRunsItsCommandAfterLeaderIsStopped) {
  const auto first = Candidate("first");
  const uint64_t epoch = EpochFrom(*first);
  const auto leader = election_.Leader();
  ASSERT_TRUE(leader.ok() && *leader);
  EXPECT_EQ((*leader)->value, "first");
  EXPECT_EQ((*leader)->epoch.value(), epoch);
  const auto second = Candidate("second");
  ASSERT_TRUE(AwaitCandidates(1));
  EXPECT_EQ(CodeAfter(*first, SIGTERM), 128 + SIGTERM);
  EXPECT_GT(EpochFrom(*second), epoch);
  EXPECT_EQ(CodeAfter(*second, SIGINT), 128 + SIGINT);
  EXPECT_THAT(Errors(), IsEmpty());
}

TEST_F(RedlatchElectTest, CampaignsAgainWhenTheCommandHasEnded) {
  const auto elect =
      Elect({"job", "--", "sh", "-c", "echo $REDLATCH_TOKEN; read code; exit $code"});
  uint64_t last = 0;
  for (const char* const code : {"0", "3"}) {
    const uint64_t epoch = EpochFrom(*elect);
    EXPECT_GT(epoch, last);
    last = epoch;
    elect->pipe().WriteLine(code);
    EXPECT_TRUE(AwaitErrors(absl::StrCat("resigned, since the command ended with ", code, "; ")));
  }
  EXPECT_GT(EpochFrom(*elect), last);
}

TEST_F(RedlatchElectTest, OnceExitsWithTheCommandsCode) {
  for (const int code : {0, 3, 121, 122}) {
    const auto elect = Elect({"--once", "job", "--", "sh", "-c", absl::StrCat("exit ", code)});
    EXPECT_EQ(CodeOf(*elect), code);
    EXPECT_EQ(server_->Integer({"EXISTS", "job"}), 0);
  }
  EXPECT_THAT(Errors(), IsEmpty());
}

TEST_F(RedlatchElectTest, StopsDuringThePause) {
  const auto elect = Elect({"job", "--", "true"});
  ASSERT_TRUE(AwaitErrors("the next campaign begins in "));
  elect->Signal(SIGTERM);
  EXPECT_THAT(CodeOf(*elect), AnyOf(128 + SIGTERM, 0)) << "0: the pause was over by then";
}

TEST_F(RedlatchElectTest, ExitsWithTheCommandsCodeIfItHandlesSigterm) {
  const std::string script =
      "trap 'echo hup' HUP; trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done";
  const auto elect = Elect({"job", "--", "sh", "-c", script});
  ASSERT_EQ(elect->pipe().ReadLine(), "ready");
  elect->Signal(SIGHUP);
  EXPECT_EQ(elect->pipe().ReadLine(), "hup");
  EXPECT_EQ(CodeAfter(*elect, SIGTERM), 5);
}

TEST_F(RedlatchElectTest, CandidateIgnoresHangupsAndLeavesTheQueueOnSigterm) {
  const auto leads = Must(election_.Campaign("here"));
  const auto elect = Candidate("waits");
  ASSERT_TRUE(AwaitCandidates(1));
  elect->Signal(SIGHUP);
  EXPECT_EQ(CodeAfter(*elect, SIGTERM), 128 + SIGTERM);
  EXPECT_TRUE(AwaitCandidates(0));
}

TEST_F(RedlatchElectTest, EndsCommandAndCampaignsAgainAfterBreak) {
  const auto first = Candidate("first");
  const uint64_t epoch = EpochFrom(*first);
  const auto second = Candidate("second");
  ASSERT_TRUE(AwaitCandidates(1));
  EXPECT_EQ(Redlatch({"break", "--yes", "job"}).code, 0);
  EXPECT_GT(EpochFrom(*second), epoch);
  EXPECT_TRUE(AwaitErrors("leads no longer; the next campaign begins in "));
  EXPECT_THAT(Errors(), HasSubstr("the leadership of \"job\" is lost (someone forced its release"));
  EXPECT_TRUE(AwaitCandidates(1));
  EXPECT_EQ(CodeAfter(*second, SIGTERM), 128 + SIGTERM);
  EXPECT_GT(EpochFrom(*first), epoch);
}

TEST_F(RedlatchElectTest, OnceCampaignsAgainAfterALoss) {
  const auto elect = Elect({"--once", "job", "--", "sh", "-c", "echo $REDLATCH_TOKEN; read line"});
  const uint64_t epoch = EpochFrom(*elect);
  EXPECT_EQ(Redlatch({"break", "--yes", "job"}).code, 0);
  EXPECT_GT(EpochFrom(*elect), epoch);
  elect->pipe().WriteLine("done");
  EXPECT_EQ(CodeOf(*elect), 0);
}

TEST_F(RedlatchElectTest, TriesUntilTheServerCanBeReached) {
  server_->Kill();
  const auto elect = Candidate("patient");
  ASSERT_TRUE(AwaitErrors("cannot campaign; the next campaign begins in "));
  server_->Restart();
  EXPECT_GT(EpochFrom(*elect), 0);
  EXPECT_EQ(CodeAfter(*elect, SIGTERM), 128 + SIGTERM);
}

TEST_F(RedlatchElectTest, EndsIfTheServerRefuses) {
  server_->Text({"HSET", "job", "no", "lock"});
  EXPECT_EQ(CodeOf(*Elect({"job", "--", "echo", "wrong"})), 123);
}

struct RedlatchLeaderTest : RedlatchElectTest {
  std::unique_ptr<support::Child> Watch(const Words& words = {}) const {
    return StartRedlatch(Join({"leader", "job", "--watch"}, words));
  }
};

TEST_F(RedlatchLeaderTest, ShowsValueEpochAndTime) {
  const auto leads = Must(election_.Campaign("10.0.0.1:7000"));
  EXPECT_THAT(Redlatch({"leader", "job"}),
              Succeeds(ContainsRegex(absl::StrCat("^10.0.0.1:7000  epoch ", leads.epoch().value(),
                                                  "  since 20[0-9-]+ [0-9:]+\n$"))));
  const Outcome json = Redlatch({"leader", "job", "--json"});
  EXPECT_EQ(Json(json.output,
                 "(rows[0]['name'], rows[0]['leader']['value'], rows[0]['leader']['epoch'], "
                 "abs(rows[0]['leader']['since_us'] / 1e6 - __import__('time').time()) < 60, "
                 "len(rows[0]['leader']['client']))"),
            absl::StrCat("('job', '10.0.0.1:7000', ", leads.epoch().value(), ", True, 32)"));
}

TEST_F(RedlatchLeaderTest, EscapesHostileValues) {
  const auto leads = Must(election_.Campaign("a\x1b[2J\nno leader\xff"));
  EXPECT_THAT(Redlatch({"leader", "job"}).output,
              StartsWith("a\\x1b[2J\\x0ano leader\\xff  epoch "));
  EXPECT_EQ(Json(Redlatch({"leader", "job", "--json"}).output,
                 "base64.b64decode(rows[0]['leader']['value_base64'])"),
            "b'a\\x1b[2J\\nno leader\\xff'");
}

TEST_F(RedlatchLeaderTest, ExitsWithOneIfThereIsNoLeader) {
  EXPECT_THAT(Redlatch({"leader", "job"}),
              Fails(1, "redlatch: the election \"job\" has no leader\n", IsEmpty()));
  EXPECT_THAT(Redlatch({"leader", "job", "--json"}),
              Fails(1, _, "{\"name\":\"job\",\"leader\":null}\n"));
}

TEST_F(RedlatchLeaderTest, RefusesOtherKeysWithAndWithoutWatch) {
  server_->Text({"ACL", "SETUSER", "viewer", "on", ">secret", "resetchannels", "%R~*", "+ping",
                 "+hello", "+time", "+mget", "+type"});
  const std::string reads = UrlOf("viewer:secret");
  server_->Text({"RPUSH", "job", "1"});
  for (const std::string& url : {server_->url(), reads}) {
    for (const Words& watch : {Words{}, {"--watch"}}) {
      EXPECT_THAT(Redlatch(Join({"leader", "job", "--server", url}, watch)),
                  Fails(123, HasSubstr("WRONGTYPE job is in use as"), IsEmpty()));
    }
  }
}

TEST_F(RedlatchLeaderTest, WatchPrintsEachChange) {
  const auto watch = Watch();
  EXPECT_EQ(watch->pipe().ReadLine(), "no leader");
  auto leads = Must(election_.Campaign());
  EXPECT_THAT(watch->pipe().ReadLine().value_or(""), StartsWith("-  epoch "));
  ASSERT_TRUE(leads.Proclaim("ready").ok());
  EXPECT_THAT(watch->pipe().ReadLine().value_or(""), StartsWith("ready  epoch "));
  ASSERT_TRUE(leads.Resign().ok());
  EXPECT_EQ(watch->pipe().ReadLine(), "no leader");
  EXPECT_EQ(CodeAfter(*watch, SIGINT), 128 + SIGINT);
}

TEST_F(RedlatchLeaderTest, WatchSaysOnceThatTheServerIsDown) {
  const auto watch = Watch();
  EXPECT_EQ(watch->pipe().ReadLine(), "no leader");
  const auto said = [this](const std::string& text) {
    return support::Await([&] { return absl::StrContains(Errors(), text); });
  };
  server_->Kill();
  EXPECT_TRUE(said("changes are not seen until it answers"));
  server_->Restart();
  EXPECT_TRUE(said("the server answers again"));
  EXPECT_EQ(CodeAfter(*watch, SIGINT), 128 + SIGINT);
  EXPECT_EQ(std::ranges::count(Errors(), '\n'), 2) << Errors();
}

TEST_F(RedlatchLeaderTest, WatchNeedsNoMorePermissionsThanReading) {
  EXPECT_EQ(server_->Text({"ACL", "SETUSER", "viewer", "on", ">secret", "resetchannels", "%R~*",
                           "+ping", "+hello", "+time", "+mget"}),
            "OK");
  const auto watch =
      Watch({absl::StrCat("--server=redis://viewer:secret@127.0.0.1:", server_->port())});
  EXPECT_EQ(watch->pipe().ReadLine(), "no leader");
  auto leads = Must(election_.Campaign("here"));
  EXPECT_THAT(watch->pipe().ReadLine().value_or(""), StartsWith("here  epoch "));
  ASSERT_TRUE(leads.Resign().ok());
  EXPECT_EQ(watch->pipe().ReadLine(), "no leader");
  EXPECT_EQ(CodeAfter(*watch, SIGINT), 128 + SIGINT);
  EXPECT_THAT(Errors(), IsEmpty());
}

TEST_F(RedlatchLeaderTest, WatchEndsIfItsOutputIsClosed) {
  const auto watch = Watch({"--json"});
  EXPECT_EQ(watch->pipe().ReadLine(), "{\"name\":\"job\",\"leader\":null}");
  watch->pipe().Close();
  ASSERT_TRUE(election_.Campaign().ok());
  EXPECT_THAT(CodeOf(*watch), AnyOf(125, 128 + SIGPIPE));
}

TEST_F(RedlatchLeaderTest, RefusesAQuorum) {
  const auto quorum = absl::StrCat("--server=redlock:", server_->url());
  const Outcome outcome = Redlatch({"leader", "job", quorum});
  EXPECT_EQ(outcome.code, 123) << outcome.errors;
}

}  // namespace
}  // namespace redlatch
