// `redlatch bench`, beside a cluster.
#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

void ExpectAllMeasured(const std::string& output) {
  EXPECT_THAT(output, HasSubstr("\"interrupted\":false"));
  for (const char* const figure : {"round_trip", "locks_per_s_one_thread", "locks_per_s_own_locks",
                                   "locks_per_s_one_lock", "hand_over"}) {
    EXPECT_THAT(output, HasSubstr(std::string("\"") + figure + "\":{\"redlatch\":"));
    EXPECT_THAT(output, Not(HasSubstr(std::string("\"") + figure + "\":{\"redlatch\":null")));
  }
}

class RedlatchClusterBenchTest : public RedlatchCommandTest {
 protected:
  static bool HasRun(RedisServer& server, const std::string& command) {
    return server.Command({"INFO", "commandstats"}).text.find("cmdstat_" + command + ":") !=
           std::string::npos;
  }

  const std::unique_ptr<ClusterGroup> group_ = ClusterGroup::Start();
};

TEST_F(RedlatchClusterBenchTest, MeasuresAllThereIsAtAllPrimariesAndLeavesNothingBehind) {
  const auto bench = StartRedlatch({"bench", "--time", "2s", "--json", "--server", group_->url()});
  const std::string output = OutputOf(*bench);
  EXPECT_EQ(CodeOf(*bench), 0) << Errors();
  ExpectAllMeasured(output);
  EXPECT_THAT(output, Not(HasSubstr("\"plain\":null"))) << "plain commands are measured, too";
  for (size_t i = 0; i < group_->servers(); ++i) {
    RedisServer& server = group_->server(i);
    EXPECT_TRUE(HasRun(server, "evalsha") && HasRun(server, "set")) << i;
    EXPECT_THAT(server.LockKeys(), IsEmpty());
    EXPECT_TRUE(Await([&] {
      return server.Command({"PUBSUB", "SHARDCHANNELS"}).elements.empty();
    }));
  }
}

// `redlatch bench`, beside a quorum of servers.

using RedlatchQuorumBenchTest = RedlatchCommandTest;

TEST_F(RedlatchQuorumBenchTest, MeasuresLocksOfAllServersAndLeavesNothingBehind) {
  QuorumGroup group(3);
  const auto bench = StartRedlatch({"bench", "--time", "2s", "--json", "--server", group.url()});
  const std::string output = OutputOf(*bench);
  EXPECT_EQ(CodeOf(*bench), 0) << Errors();
  ExpectAllMeasured(output);
  for (size_t i = 0; i < group.size(); ++i) {
    EXPECT_THAT(group[i].Command({"INFO", "commandstats"}).text, HasSubstr("cmdstat_evalsha:"));
    EXPECT_TRUE(Await([&] { return group[i].LockKeys().empty(); }))
        << ::testing::PrintToString(group[i].LockKeys());
  }
}

}  // namespace
}  // namespace redlatch
