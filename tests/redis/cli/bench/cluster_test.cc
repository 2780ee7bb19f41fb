// `redlatch bench`, beside a cluster.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"

namespace redlatch {
namespace {

using support::Await;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RedlatchClusterBenchTest : public RedlatchCommandTest {
 protected:
  static bool HasRun(support::RedisServer& server, const std::string& command) {
    return server.Command({"INFO", "commandstats"}).text.find("cmdstat_" + command + ":") !=
           std::string::npos;
  }

  const std::unique_ptr<support::ClusterGroup> group_ = support::ClusterGroup::Start();
};

TEST_F(RedlatchClusterBenchTest, MeasuresAllThereIsAtAllPrimariesAndLeavesNothingBehind) {
  const auto bench = StartRedlatch({"bench", "--time", "2s", "--json", "--server", group_->url()});
  const std::string output = OutputOf(*bench);
  EXPECT_EQ(CodeOf(*bench), 0) << Errors();
  EXPECT_THAT(output, HasSubstr("\"interrupted\":false"));
  for (const char* const figure : {"round_trip", "locks_per_s_one_thread", "locks_per_s_own_locks",
                                   "locks_per_s_one_lock", "hand_over"}) {
    EXPECT_THAT(output, HasSubstr(std::string("\"") + figure + "\":{\"redlatch\":"));
    EXPECT_THAT(output, Not(HasSubstr(std::string("\"") + figure + "\":{\"redlatch\":null")));
  }
  EXPECT_THAT(output, Not(HasSubstr("\"plain\":null"))) << "plain commands are measured, too";
  for (size_t i = 0; i < group_->servers(); ++i) {
    support::RedisServer& server = group_->server(i);
    EXPECT_TRUE(HasRun(server, "evalsha") && HasRun(server, "set")) << i;
    EXPECT_THAT(server.LockKeys(), IsEmpty());
    EXPECT_TRUE(Await([&] {
      return server.Command({"PUBSUB", "SHARDCHANNELS"}).elements.empty();
    }));
  }
}

TEST_F(RedlatchClusterBenchTest, TakesNamesThatShareAHashTag) {
  const auto bench = StartRedlatch(
      {"bench", "--time", "1s", "--json", "--prefix", "{orders}:", "--server", group_->url()});
  const std::string output = OutputOf(*bench);
  EXPECT_EQ(CodeOf(*bench), 0) << Errors();
  EXPECT_THAT(output, HasSubstr("\"locks_per_s_own_locks\":{\"redlatch\":"));
  for (size_t i = 0; i < group_->servers(); ++i) {
    EXPECT_THAT(group_->server(i).LockKeys(), IsEmpty());
  }
}

}  // namespace
}  // namespace redlatch
