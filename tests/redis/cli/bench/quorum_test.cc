// `redlatch bench`, beside a quorum of servers.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/await.h"
#include "tests/support/quorum_group.h"

namespace redlatch {
namespace {

using support::Await;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using RedlatchQuorumBenchTest = RedlatchCommandTest;

TEST_F(RedlatchQuorumBenchTest, MeasuresLocksOfAllServersAndLeavesNothingBehind) {
  support::QuorumGroup group(3);
  const auto bench = StartRedlatch({"bench", "--time", "2s", "--json", "--server", group.url()});
  const std::string output = OutputOf(*bench);
  EXPECT_EQ(CodeOf(*bench), 0) << Errors();
  EXPECT_THAT(output, HasSubstr("\"interrupted\":false"));
  for (const char* const figure : {"round_trip", "locks_per_s_one_thread", "locks_per_s_own_locks",
                                   "locks_per_s_one_lock", "hand_over"}) {
    EXPECT_THAT(output, HasSubstr(std::string("\"") + figure + "\":{\"redlatch\":"));
    EXPECT_THAT(output, Not(HasSubstr(std::string("\"") + figure + "\":{\"redlatch\":null")));
  }
  for (size_t i = 0; i < group.size(); ++i) {
    EXPECT_THAT(group[i].Command({"INFO", "commandstats"}).text, HasSubstr("cmdstat_evalsha:"));
    EXPECT_TRUE(Await([&] { return group[i].LockKeys().empty(); }))
        << ::testing::PrintToString(group[i].LockKeys());
  }
}

TEST_F(RedlatchQuorumBenchTest, RefusesAClusterAsAServer) {
  const auto bench =
      StartRedlatch({"bench", "--server", "redlock:redis://127.0.0.1:1,redis-cluster://n1,n2"});
  EXPECT_THAT(OutputOf(*bench), IsEmpty());
  EXPECT_EQ(CodeOf(*bench), 125);
  EXPECT_THAT(Errors(), HasSubstr("--server redis-cluster://n1:6379,n2:6379"));
}

}  // namespace
}  // namespace redlatch
