// What the doctor concludes of a quorum of servers, from facts that are made up.

#include "tests/unit/cli/doctor/fixture.h"

namespace redlatch::cli {
namespace {

QuorumFacts HealthyQuorum(int size = 3) {
  QuorumFacts facts;
  for (int i = 1; i <= size; ++i) {
    NodeFacts node;
    node.address = absl::StrCat("redis://n", i, ":6379");
    node.reached = absl::OkStatus();
    node.facts = HealthyFacts();
    node.facts.of_quorum = true;
    node.facts.quarantine = absl::ZeroDuration();
    node.facts.trials = {{.kind = "quorum", .outcome = absl::OkStatus()}};
    node.facts.delay = absl::NotFoundError("none");
    (*node.facts.info)["run_id"] = absl::StrCat("run", i);
    (*node.facts.info)["master_replid"] = absl::StrCat("id", i);
    facts.nodes.push_back(std::move(node));
  }
  return facts;
}

Finding Only(const QuorumFacts& facts, std::string_view check) {
  const std::vector<Finding> of = Of(facts, check);
  EXPECT_EQ(of.size(), 1U) << check;
  return of.empty() ? Finding{.level = Level::kUnchecked} : of.front();
}

void StepClock(NodeFacts& node, absl::Duration by) {
  for (ClockReading& reading : node.facts.clock) reading.server += by;
}

TEST(DoctorQuorumTest, FindsNothingInOneThatIsWell) {
  for (const Finding& finding : Diagnose(HealthyQuorum())) {
    EXPECT_LE(finding.level, Level::kNote) << finding.check << ": " << finding.found;
  }
  for (const char* const check : {"quorum", "servers", "independence", "clocks"}) {
    EXPECT_EQ(Only(HealthyQuorum(), check).level, Level::kOk) << check;
  }
  EXPECT_EQ(Only(HealthyQuorum(), "locks").where, "all 3 servers");
  EXPECT_THAT(Of(HealthyQuorum(), "versions"), IsEmpty());
  EXPECT_THAT(Of(HealthyQuorum(), "promise"), IsEmpty()) << "of one server";
}

TEST(DoctorQuorumTest, CountsItsServers) {
  EXPECT_EQ(Only(HealthyQuorum(1), "quorum").level, Level::kWarn);
  EXPECT_EQ(Only(HealthyQuorum(2), "quorum").level, Level::kWarn);
  EXPECT_EQ(Only(HealthyQuorum(3), "quorum").level, Level::kOk);
  EXPECT_EQ(Only(HealthyQuorum(4), "quorum").level, Level::kNote);
  EXPECT_THAT(Only(HealthyQuorum(4), "quorum").found, HasSubstr("of which 1 may fail"));
  EXPECT_THAT(Only(HealthyQuorum(5), "quorum").found, HasSubstr("of which 2 may fail"));
}

TEST(DoctorQuorumTest, NamesServersThatDoNotAnswer) {
  QuorumFacts facts = HealthyQuorum();
  facts.nodes[1].reached = absl::UnavailableError("cannot connect");
  EXPECT_THAT(Only(facts, "servers").found, AllOf(HasSubstr("n2"), HasSubstr("cannot connect")));
  EXPECT_EQ(Only(facts, "servers").level, Level::kWarn);
  EXPECT_EQ(Only(facts, "locks").where, "all 2 servers that answer");
  facts.nodes[2].reached = absl::UnavailableError("cannot connect");
  EXPECT_EQ(Of(facts, "servers").back().level, Level::kBad);
  EXPECT_THAT(Of(facts, "servers").back().found, HasSubstr("1 of 3 answer, and 2 are needed"));
}

TEST(DoctorQuorumTest, FindsAServerThatIsNamedTwice) {
  QuorumFacts facts = HealthyQuorum();
  facts.nodes[2].facts.info = facts.nodes[0].facts.info;
  EXPECT_EQ(Only(facts, "independence").level, Level::kBad);
  EXPECT_THAT(Only(facts, "independence").found,
              HasSubstr("redis://n1:6379 and redis://n3:6379 are one and the same server"));
}

TEST(DoctorQuorumTest, FindsAReplicaOfAnother) {
  QuorumFacts facts = HealthyQuorum();
  (*facts.nodes[2].facts.info)["role"] = "slave";
  (*facts.nodes[2].facts.info)["master_replid"] = "id2";
  EXPECT_EQ(Only(facts, "independence").level, Level::kBad);
  EXPECT_THAT(Only(facts, "independence").found,
              HasSubstr("redis://n2:6379 and redis://n3:6379 have the same data"));
  EXPECT_EQ(Of(facts, "role").back().level, Level::kBad);
  EXPECT_THAT(Of(facts, "role").back().mend, HasSubstr("primaries, each of its own"));
}

TEST(DoctorQuorumTest, SaysWhereIndependenceIsNotKnown) {
  QuorumFacts facts = HealthyQuorum();
  facts.nodes[0].facts.info = absl::PermissionDeniedError("no");
  EXPECT_EQ(Only(facts, "independence").level, Level::kUnchecked);
}

TEST(DoctorQuorumTest, FindsClocksThatAreApart) {
  QuorumFacts facts = HealthyQuorum();
  StepClock(facts.nodes[0], absl::Milliseconds(400));
  EXPECT_EQ(Only(facts, "clocks").level, Level::kOk);
  StepClock(facts.nodes[2], -absl::Milliseconds(400));
  EXPECT_EQ(Only(facts, "clocks").level, Level::kWarn);
  EXPECT_THAT(Only(facts, "clocks").found,
              HasSubstr("redis://n1:6379 is 800 ms ahead of redis://n3:6379"));
}

TEST(DoctorQuorumTest, TellsOfDifferentVersions) {
  QuorumFacts facts = HealthyQuorum();
  (*facts.nodes[1].facts.info)["redis_version"] = "7.2.1";
  EXPECT_EQ(Only(facts, "versions").level, Level::kNote);
  EXPECT_THAT(Only(facts, "versions").found, HasSubstr("Redis 7.2.1 at redis://n2:6379"));
}

TEST(DoctorQuorumTest, AdvisesARestartDelayWhereARestartForgets) {
  QuorumFacts facts = HealthyQuorum();
  (*facts.nodes[1].facts.info)["aof_enabled"] = "0";
  const std::vector<Finding> without = Of(facts, "persistence");
  EXPECT_EQ(without.back().level, Level::kWarn);
  EXPECT_EQ(without.back().where, "redis://n2:6379");
  EXPECT_THAT(without.back().mend, HasSubstr("restart_delay="));
  for (NodeFacts& node : facts.nodes) node.facts.restart_delay = absl::Minutes(1);
  EXPECT_EQ(Of(facts, "persistence").back().level, Level::kNote);
  EXPECT_EQ(Only(facts, "restarts").level, Level::kOk);
}

TEST(DoctorQuorumTest, FindsWhatARestartDelayLacks) {
  const auto with = [](const Told<Holdback>& delay) {
    QuorumFacts facts = HealthyQuorum();
    for (NodeFacts& node : facts.nodes) node.facts.restart_delay = absl::Minutes(1);
    facts.nodes[2].facts.delay = delay;
    return Of(facts, "restarts").back();
  };
  const absl::Time now = HealthyQuorum().nodes[0].facts.looked_at;
  EXPECT_EQ(with(absl::NotFoundError("none")).level, Level::kOk);
  EXPECT_EQ(with(Holdback{.until = now - absl::Hours(1), .length = absl::Minutes(1)}).level,
            Level::kOk);
  EXPECT_EQ(with(Holdback{.until = now + absl::Seconds(9), .length = absl::Minutes(1)}).level,
            Level::kNote);
  const Finding differs = with(Holdback{.until = now, .length = absl::Minutes(2)});
  EXPECT_EQ(differs.level, Level::kBad);
  EXPECT_THAT(differs.mend, HasSubstr("restart_delay=2m"));
  QuorumFacts facts = HealthyQuorum();
  facts.nodes[2].facts.restart_delay = absl::Minutes(1);
  facts.nodes[2].facts.delay = absl::PermissionDeniedError("no");
  EXPECT_EQ(Of(facts, "restarts").front().level, Level::kBad);
  EXPECT_THAT(Of(facts, "restarts").front().commands.front(), HasSubstr("~redlatch:quorum"));
}

TEST(DoctorQuorumTest, FindsADelayThatThisUrlDoesNotAskFor) {
  QuorumFacts facts = HealthyQuorum();
  facts.nodes[0].facts.delay = Holdback{.until = {}, .length = absl::Minutes(1)};
  EXPECT_EQ(Only(facts, "restarts").level, Level::kBad);
  EXPECT_THAT(Only(facts, "restarts").found, HasSubstr("and this URL for none"));
}

}  // namespace
}  // namespace redlatch::cli
