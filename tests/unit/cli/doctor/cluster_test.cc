// What the doctor concludes of a cluster, from facts that are made up.

#include "tests/unit/cli/doctor/fixture.h"

namespace redlatch::cli {
namespace {

NodeFacts HealthyNode(const std::string& address, Place place) {
  NodeFacts node;
  node.address = address;
  node.is_replica = place == Place::kReplica;
  node.reached = absl::OkStatus();
  node.facts = HealthyFacts();
  node.facts.place = place;
  node.facts.quarantine = absl::ZeroDuration();
  (*node.facts.info)["redis_mode"] = "cluster";
  if (node.is_replica) (*node.facts.info)["role"] = "slave";
  (*node.facts.info)["master_link_status"] = "up";
  (*node.facts.config)["cluster-require-full-coverage"] = "no";
  (*node.facts.config)["cluster-node-timeout"] = "15000";
  node.state = Fields{{"cluster_state", "ok"}};
  node.nodes = std::vector<ClusterLine>();
  return node;
}

ClusterFacts HealthyCluster() {
  ClusterFacts facts;
  facts.server = "redis-cluster://n1:7001";
  facts.seeds = {{.address = "n1:7001",
                  .reached = absl::OkStatus(),
                  .primaries = {"a", "b", "c"},
                  .announced = "n1:7001"}};
  for (const char* const address : {"n1:7001", "n2:7001", "n3:7001"}) {
    facts.nodes.push_back(HealthyNode(address, Place::kPrimary));
  }
  for (const char* const address : {"n1:7002", "n2:7002", "n3:7002"}) {
    facts.nodes.push_back(HealthyNode(address, Place::kReplica));
  }
  return facts;
}

TEST(ClusterDoctor, FindsNothingToChangeInAHealthyCluster) {
  for (const Finding& finding : Diagnose(HealthyCluster())) {
    EXPECT_LE(finding.level, Level::kNote) << finding.check << ": " << finding.found;
  }
  EXPECT_EQ(DoctorExitCode(Diagnose(HealthyCluster())), 0);
}

TEST(ClusterDoctor, SaysWhatSeveralNodesHaveInCommonOnceAndNamesThem) {
  ClusterFacts facts = HealthyCluster();
  EXPECT_EQ(Of(facts, "eviction").front().where, "all 6 nodes");
  EXPECT_EQ(Of(facts, "messages").front().where, "all 3 primaries");
  for (size_t i : {1, 4}) (*facts.nodes[i].facts.info)["maxmemory_policy"] = "allkeys-lru";
  const std::vector<Finding> eviction = Of(facts, "eviction");
  ASSERT_THAT(eviction, SizeIs(2));
  EXPECT_EQ(eviction[0].where, "n1:7001, n3:7001, n1:7002, n3:7002");
  EXPECT_EQ(eviction[1].level, Level::kBad);
  EXPECT_THAT(eviction[1].nodes, ElementsAre("n2:7001", "n2:7002"));
}

TEST(ClusterDoctor, MergesFiguresThatDifferOnlyWhereNothingIsToBeChanged) {
  ClusterFacts facts = HealthyCluster();
  facts.nodes[1].facts.message = absl::Milliseconds(3);
  const std::vector<Finding> messages = Of(facts, "messages");
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].where, "all 3 primaries (figures of n1:7001)");
  for (size_t i : {0, 1}) {
    facts.nodes[i].facts.slow_commands =
        std::vector<Delay>{{.what = "keys", .took = absl::Seconds(1 + i), .ago = absl::Minutes(1)}};
  }
  EXPECT_THAT(Of(facts, "slow log"), SizeIs(3)) << "each that has to be looked into";
}

TEST(ClusterDoctor, NamesNodesOfOtherVersions) {
  ClusterFacts facts = HealthyCluster();
  EXPECT_THAT(Of(facts, "versions"), IsEmpty());
  (*facts.nodes[4].facts.info)["redis_version"] = "7.2.4";
  const std::vector<Finding> versions = Of(facts, "versions");
  ASSERT_THAT(versions, SizeIs(1));
  EXPECT_EQ(versions[0].level, Level::kWarn);
  EXPECT_THAT(versions[0].found, HasSubstr("Redis 7.2.4 at n2:7002"));
}

TEST(ClusterDoctor, NamesNodesThatOthersMiss) {
  ClusterFacts facts = HealthyCluster();
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

TEST(ClusterDoctor, ReadsSlotsOnTheMoveFromBothEnds) {
  const std::vector<ClusterLine> lines = ReadClusterNodes(
      "a n1:7001@17001,host myself,master - 0 0 1 connected 0-5460 [93->-b] [77-<-c]\n");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].address, "n1:7001");
  ASSERT_THAT(lines[0].open, SizeIs(2));
  EXPECT_TRUE(lines[0].open[0].leaving);
  EXPECT_EQ(lines[0].open[0].other, "b");
  EXPECT_FALSE(lines[0].open[1].leaving);
  EXPECT_EQ(lines[0].open[1].slot, 77);
  ClusterFacts facts = HealthyCluster();
  facts.nodes[0].nodes = lines;
  EXPECT_THAT(Of(facts, "moves").front().found,
              AllOf(HasSubstr("slot 77 from c to n1:7001"), HasSubstr("93 from n1:7001 to b")));
}

TEST(ClusterDoctor, SaysWhatFullCoverageMeansAndWhatItCouldNotSee) {
  ClusterFacts facts = HealthyCluster();
  (*facts.nodes[0].facts.config)["cluster-require-full-coverage"] = "yes";
  (*facts.nodes[1].facts.config)["cluster-allow-pubsubshard-when-down"] = "no";
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

TEST(ClusterDoctor, WarnsOfAReplicaThatCanNotTakeOver) {
  ClusterFacts facts = HealthyCluster();
  (*facts.nodes[3].facts.info)["master_link_status"] = "down";
  const std::vector<Finding> role = Of(facts, "role");
  ASSERT_THAT(role, SizeIs(3));
  EXPECT_EQ(role[1].level, Level::kWarn);
  EXPECT_EQ(role[1].where, "n1:7002");
}

}  // namespace
}  // namespace redlatch::cli
