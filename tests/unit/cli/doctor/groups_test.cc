// Tests what the doctor concludes from made-up facts about clusters and quorums.
#include "tests/unit/cli/doctor/fixture.h"

namespace redlatch::cli {
namespace {

NodeFacts HealthyNode(const std::string& address, bool is_replica) {
  NodeFacts node = {.address = address, .is_replica = is_replica, .reached = absl::OkStatus()};
  node.facts = HealthyFacts();
  node.facts.Set("wanted_ms", 0).Set("redis_mode", "cluster").Set("master_link_status", "up");
  node.facts.Flag("in_cluster", true).Set("role", is_replica ? "slave" : "master");
  node.facts.Set("cluster-require-full-coverage", "no").Set("cluster-node-timeout", "15000");
  node.facts.Set("cluster_state", "ok").Set(is_replica ? "is_replica" : "is_primary", 1);
  node.nodes = std::vector<ClusterLine>();
  return node;
}

GroupFacts HealthyCluster() {
  GroupFacts facts;
  facts.seeds = {
      Facts().Set("address", "n1:7001").Set("knows", "a,b,c").Set("announced", "n1:7001")};
  for (const char* const port : {":7001", ":7002"}) {
    for (const char* const host : {"n1", "n2", "n3"}) {
      facts.nodes.push_back(HealthyNode(absl::StrCat(host, port), port[4] == '2'));
    }
  }
  return facts;
}

TEST(ClusterDoctor, HealthyClusterNeedsNoChange) {
  for (const Finding& finding : Diagnose(HealthyCluster())) {
    EXPECT_LE(finding.level, Level::kNote) << finding.check << ": " << finding.found;
  }
  EXPECT_EQ(DoctorExitCode(Diagnose(HealthyCluster())), 0);
}

TEST(ClusterDoctor, MergesEqualFindingsAndNamesTheirNodes) {
  GroupFacts facts = HealthyCluster();
  EXPECT_EQ(Of(facts, "eviction").front().where, "all 6 nodes");
  EXPECT_EQ(Of(facts, "messages").front().where, "all 3 primaries");
  for (size_t i : {1, 4}) facts.nodes[i].facts.Set("maxmemory_policy", "allkeys-lru");
  const std::vector<Finding> eviction = Of(facts, "eviction");
  ASSERT_THAT(eviction, SizeIs(2));
  EXPECT_EQ(eviction[0].where, "n1:7001, n3:7001, n1:7002, n3:7002");
  EXPECT_EQ(eviction[1].level, Level::kBad);
  EXPECT_THAT(eviction[1].nodes, ElementsAre("n2:7001", "n2:7002"));
}

TEST(ClusterDoctor, MergesDifferentFiguresOnlyIfNoChangeIsNeeded) {
  GroupFacts facts = HealthyCluster();
  facts.nodes[1].facts.Set("message_took", "3 ms");
  const std::vector<Finding> messages = Of(facts, "messages");
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].where, "all 3 primaries (figures of n1:7001)");
  for (size_t i : {0, 1}) {
    const Reply keys =
        Array({Number(1), Number(0), Number(1'000'000 * (1 + static_cast<int64_t>(i))),
               Array({Text("keys")})});
    TakeDelays("slow", Array({keys}), absl::FromUnixSeconds(60), facts.nodes[i].facts);
  }
  EXPECT_THAT(Of(facts, "slow log"), SizeIs(3)) << "each warning keeps its figures";
}

TEST(ClusterDoctor, NamesNodesThatOtherNodesMiss) {
  GroupFacts facts = HealthyCluster();
  facts.nodes[0].nodes = ReadClusterNodes(
      "a n1:7001@17001 myself,master - 0 0 1 connected 0-5460\n"
      "b n2:7001@17001 master,fail? - 0 0 2 connected 5461-10922\n"
      "d n9:7001@17001 handshake - 0 0 0 connected\n"
      "e :0@0 slave,fail,noaddr a 0 0 1 disconnected\n");
  const std::vector<Finding> nodes = Of(facts, "nodes");
  ASSERT_THAT(nodes, SizeIs(4));
  for (const Finding& finding : nodes) EXPECT_EQ(finding.level, Level::kWarn) << finding.found;
  EXPECT_THAT(nodes[1].found, HasSubstr("n2:7001 is not heard"));
  EXPECT_THAT(nodes[2].found, HasSubstr("n9:7001 is in a handshake"));
  EXPECT_THAT(nodes[3].found, HasSubstr("e has no known address"));
}

TEST(ClusterDoctor, ReportsMovingSlotsFromBothNodes) {
  const std::vector<ClusterLine> lines = ReadClusterNodes(
      "a n1:7001@17001,host myself,master - 0 0 1 connected 0-5460 [93->-b] [77-<-c]\n");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].address, "n1:7001");
  ASSERT_THAT(lines[0].open, SizeIs(2));
  EXPECT_TRUE(lines[0].open[0].leaving);
  EXPECT_EQ(lines[0].open[0].other, "b");
  EXPECT_FALSE(lines[0].open[1].leaving);
  EXPECT_EQ(lines[0].open[1].slot, 77);
  GroupFacts facts = HealthyCluster();
  facts.nodes[0].nodes = lines;
  EXPECT_THAT(Of(facts, "moves").front().found,
              AllOf(HasSubstr("slot 77 from c to n1:7001"), HasSubstr("93 from n1:7001 to b")));
}

TEST(ClusterDoctor, ExplainsFullCoverageAndMissingPermissions) {
  GroupFacts facts = HealthyCluster();
  facts.nodes[0].facts.Set("cluster-require-full-coverage", "yes");
  facts.nodes[1].facts.Set("cluster-allow-pubsubshard-when-down", "no");
  const std::vector<Finding> coverage = Of(facts, "coverage");
  ASSERT_THAT(coverage, SizeIs(3));
  EXPECT_EQ(coverage[0].level, Level::kNote);
  EXPECT_THAT(coverage[0].commands, ElementsAre("CONFIG SET cluster-require-full-coverage no"));
  EXPECT_EQ(coverage[2].where, "n2:7001");
  facts.nodes[2].nodes = absl::PermissionDeniedError("NOPERM");
  EXPECT_EQ(Of(facts, "moves").front().level, Level::kUnchecked);
  facts.nodes.resize(2);
  EXPECT_EQ(Of(facts, "majority").front().level, Level::kWarn);
}

TEST(ClusterDoctor, WarnsOfADisconnectedReplica) {
  GroupFacts facts = HealthyCluster();
  facts.nodes[3].facts.Set("master_link_status", "down");
  const std::vector<Finding> role = Of(facts, "role");
  ASSERT_THAT(role, SizeIs(3));
  EXPECT_EQ(role[1].level, Level::kWarn);
  EXPECT_EQ(role[1].where, "n1:7002");
}

// A change to a healthy group, and the only finding of a check after it: its level and parts of
// what it says, or of its last finding if there are several.
struct GroupCase {
  std::string_view check;
  Level level;
  std::function<void(GroupFacts&)> change;
  std::vector<std::string> says = {};
};

void ExpectLast(const GroupFacts& healthy, const std::vector<GroupCase>& cases) {
  for (const GroupCase& each : cases) {
    SCOPED_TRACE(absl::StrCat(std::string(each.check), ", case ", &each - cases.data()));
    GroupFacts facts = healthy;
    each.change(facts);
    const std::vector<Finding> of = Of(facts, each.check);
    ASSERT_FALSE(of.empty());
    EXPECT_EQ(of.back().level, each.level) << of.back().found;
    const std::string said =
        absl::StrCat(of.back().where, ": ", of.back().found, "\n", of.back().fix);
    for (const std::string& text : each.says) EXPECT_THAT(said, HasSubstr(text));
  }
}

GroupFacts HealthyQuorum(int size = 3) {
  GroupFacts facts;
  for (int i = 1; i <= size; ++i) {
    NodeFacts node = {.address = absl::StrCat("redis://n", i, ":6379"),
                      .reached = absl::OkStatus()};
    node.facts = HealthyFacts();
    node.facts.Flag("of_quorum", true).Set("wanted_ms", 0).Set("run_id", absl::StrCat("run", i));
    node.facts.Set("master_replid", absl::StrCat("id", i));
    node.facts.lists["Trials"] = {Facts().Set("working", "quorum")};
    facts.nodes.push_back(std::move(node));
  }
  return facts;
}

Finding Only(const GroupFacts& facts, std::string_view check) {
  const std::vector<Finding> of = Of(facts, check);
  EXPECT_EQ(of.size(), 1U) << check;
  return of.empty() ? Finding{.level = Level::kUnchecked} : of.front();
}

TEST(DoctorQuorumTest, HealthyQuorumNeedsNoChange) {
  for (const Finding& finding : Diagnose(HealthyQuorum())) {
    EXPECT_LE(finding.level, Level::kNote) << finding.check << ": " << finding.found;
  }
  for (const char* const check : {"quorum", "servers", "independence", "clocks"}) {
    EXPECT_EQ(Only(HealthyQuorum(), check).level, Level::kOk) << check;
  }
  EXPECT_EQ(Only(HealthyQuorum(), "locks").where, "all 3 servers");
  EXPECT_THAT(Of(HealthyQuorum(), "versions"), IsEmpty());
  EXPECT_THAT(Of(HealthyQuorum(), "promise"), IsEmpty()) << "a single server promises nothing";
}

TEST(ClusterDoctor, NamesNodesWithOtherVersions) {
  EXPECT_THAT(Of(HealthyCluster(), "versions"), IsEmpty());
  const auto other = [](auto& facts) { facts.nodes[4].facts.Set("redis_version", "7.2.4"); };
  ExpectLast(HealthyCluster(), {{"versions", Level::kWarn, other, {"Redis 7.2.4 at n2:7002"}}});
}

TEST(DoctorQuorumTest, CountsItsServers) {
  const auto of = [](int size) {
    return [size](GroupFacts& facts) { facts = HealthyQuorum(size); };
  };
  ExpectLast({}, {{"quorum", Level::kWarn, of(1)},
                  {"quorum", Level::kWarn, of(2)},
                  {"quorum", Level::kOk, of(3)},
                  {"quorum", Level::kNote, of(4), {"of which 1 may fail"}},
                  {"quorum", Level::kOk, of(5), {"of which 2 may fail"}}});
}

TEST(DoctorQuorumTest, ComparesItsServers) {
  const auto silent = [](std::vector<size_t> which) {
    return [which](GroupFacts& facts) {
      for (const size_t i : which) facts.nodes[i].reached = absl::UnavailableError("it is down");
    };
  };
  const auto set = [](size_t which, std::string name, std::string value) {
    return [=](GroupFacts& facts) { facts.nodes[which].facts.Set(name, value); };
  };
  const auto named_twice = [](GroupFacts& facts) {
    facts.nodes[2].facts.Set("run_id", "run1").Set("master_replid", "id1");
  };
  const auto replica = [](GroupFacts& facts) {
    facts.nodes[2].facts.Set("role", "slave").Set("master_replid", "id2");
  };
  const auto ahead = [](double first_us, double last_us) {
    return [=](GroupFacts& facts) {
      for (const auto& [node, by] : {std::pair(0, first_us), {2, last_us}}) {
        facts.nodes[node].facts.Set("ahead_us", facts.nodes[node].facts.n("ahead_us") + by);
      }
    };
  };
  ExpectLast(HealthyQuorum(),
             {{"servers", Level::kWarn, silent({1}), {"n2", "it is down"}},
              {"locks", Level::kOk, silent({1}), {"all 2 servers that answer"}},
              {"servers", Level::kBad, silent({1, 2}), {"1 of 3 answer, and 2 are needed"}},
              {"independence",
               Level::kBad,
               named_twice,
               {"redis://n1:6379 and redis://n3:6379 are one and the same server"}},
              {"independence",
               Level::kBad,
               replica,
               {"redis://n2:6379 and redis://n3:6379 have the same data"}},
              {"role", Level::kBad, replica, {"primaries, each of its own"}},
              {"independence", Level::kUnchecked,
               [](auto& facts) { facts.nodes[0].facts.texts.erase("run_id"); }},
              {"clocks", Level::kOk, ahead(4e5, 0)},
              {"clocks",
               Level::kWarn,
               ahead(4e5, -4e5),
               {"redis://n1:6379 is 800 ms ahead of redis://n3:6379"}},
              {"versions",
               Level::kNote,
               set(1, "redis_version", "7.2.1"),
               {"Redis 7.2.1 at redis://n2:6379"}},
              {"persistence",
               Level::kWarn,
               set(1, "aof_enabled", "0"),
               {"redis://n2:6379: ", "restart_delay="}}});
}

TEST(DoctorQuorumTest, RestartDelayMakesUpForAForgetfulServer) {
  const auto delayed = [](GroupFacts& facts) {
    facts.nodes[1].facts.Set("aof_enabled", "0");
    for (NodeFacts& node : facts.nodes) node.facts.Set("wanted_ms", 60'000);
  };
  ExpectLast(HealthyQuorum(),
             {{"persistence", Level::kNote, delayed}, {"restarts", Level::kOk, delayed}});
}

TEST(DoctorQuorumTest, FindsProblemsOfARestartDelay) {
  const absl::Time now = absl::FromUnixMillis(1'700'000'000'000);
  const auto with = [](const Reply& record) {
    GroupFacts facts = HealthyQuorum();
    for (NodeFacts& node : facts.nodes) node.facts.Set("wanted_ms", 60'000);
    TakeRecord(record, facts.nodes[2].facts);
    return Of(facts, "restarts");
  };
  const auto record = [&](absl::Duration ends_in, int64_t length_ms) {
    return Text(absl::StrCat("id ", absl::ToUnixMillis(now + ends_in), " ", length_ms));
  };
  EXPECT_EQ(with(Reply()).back().level, Level::kOk);
  EXPECT_EQ(with(record(-absl::Hours(1), 60'000)).back().level, Level::kOk);
  EXPECT_EQ(with(record(absl::Seconds(9), 60'000)).back().level, Level::kNote);
  const Finding differs = with(record(absl::ZeroDuration(), 120'000)).back();
  EXPECT_EQ(differs.level, Level::kBad);
  EXPECT_THAT(differs.fix, HasSubstr("restart_delay=2m"));
  const Finding denied = with(Error("NOPERM No permissions to access a key")).back();
  EXPECT_EQ(denied.level, Level::kBad);
  EXPECT_THAT(denied.commands.front(), HasSubstr("~redlatch:quorum"));
}

TEST(DoctorQuorumTest, FindsARestartDelayMissingInTheUrl) {
  GroupFacts facts = HealthyQuorum();
  TakeRecord(Text("id 0 60000"), facts.nodes[0].facts);
  EXPECT_EQ(Only(facts, "restarts").level, Level::kBad);
  EXPECT_THAT(Only(facts, "restarts").found, HasSubstr("and this URL for none"));
}

}  // namespace
}  // namespace redlatch::cli
