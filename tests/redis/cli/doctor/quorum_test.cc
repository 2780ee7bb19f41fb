// `redlatch doctor`, beside quorums of servers that are well, and that are not.
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/await.h"
#include "tests/support/quorum_group.h"

namespace redlatch {
namespace {

using support::Await;
using support::QuorumGroup;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RedlatchQuorumDoctorTest : public RedlatchCommandTest {
 protected:
  struct Look {
    int code = -1;
    std::string output;

    // What was found under this name, as lines of JSON.
    std::string Of(const std::string& check) const {
      std::string lines;
      const std::regex line("\\{\"check\":\"" + check + "\".*\\}");
      for (std::sregex_iterator at(output.begin(), output.end(), line);
           at != std::sregex_iterator(); ++at) {
        absl::StrAppend(&lines, absl::StrReplaceAll(at->str(), {{"\\/", "/"}}), "\n");
      }
      return lines;
    }
  };

  Look LookAt(const std::string& url) const {
    const auto doctor = StartRedlatch({"doctor", "--json"}, {"REDLATCH_URL=" + url});
    Look look;
    look.output = OutputOf(*doctor);
    look.code = CodeOf(*doctor);
    return look;
  }

  static auto Says(const std::string& level) { return HasSubstr("\"level\":\"" + level + "\""); }
};

TEST_F(RedlatchQuorumDoctorTest, FindsAQuorumFitThatIsAndLeavesNothingBehind) {
  QuorumGroup group(3, {.append_only = true, .config = {"appendfsync always"}});
  const Look look = LookAt(group.url());
  // Times are the machine's; all else is well.
  EXPECT_THAT(look.code, AnyOf(0, 1)) << look.output << Errors();
  for (const char* const check : {"quorum", "servers", "independence", "clocks", "version", "role",
                                  "permissions", "persistence", "eviction", "messages"}) {
    EXPECT_THAT(look.Of(check), Says("ok")) << check;
  }
  EXPECT_THAT(look.Of("locks"), AllOf(Says("ok"), HasSubstr("taken, kept and released: quorum"),
                                      HasSubstr(group[0].url()), HasSubstr(group[2].url())));
  EXPECT_THAT(look.Of("replicas"), IsEmpty());
  for (size_t i = 0; i < group.size(); ++i) {
    EXPECT_TRUE(Await([&] { return group[i].Integer({"DBSIZE"}) == 0; })) << i;
  }
}

TEST_F(RedlatchQuorumDoctorTest, SaysWhatAllHaveInCommonOnce) {
  QuorumGroup group(3);
  const auto doctor = StartRedlatch({"doctor"}, {"REDLATCH_URL=" + group.url()});
  const std::string output = OutputOf(*doctor);
  EXPECT_EQ(CodeOf(*doctor), 1) << "its servers keep nothing\n" << output;
  EXPECT_THAT(output, AllOf(HasSubstr("persistence  all 3 servers: no append-only file"),
                            HasSubstr("say restart_delay= in the URL of each server"),
                            HasSubstr("quorum       there are 3 servers, of which 1 may fail")));
}

TEST_F(RedlatchQuorumDoctorTest, FindsServersThatAreOneOrReplicasOrGone) {
  QuorumGroup group(3);
  group[2].Do({"CONFIG", "SET", "repl-diskless-sync-delay", "0"});
  group[0].Do({"CONFIG", "SET", "repl-diskless-sync-delay", "0"});
  group[2].Do({"CONFIG", "SET", "masteruser", support::RedisServer::kOwnUser});
  group[2].Do({"CONFIG", "SET", "masterauth", support::RedisServer::kOwnPassword});
  group[2].Do({"REPLICAOF", "127.0.0.1", absl::StrCat(group[0].port())});
  ASSERT_TRUE(
      Await([&] { return group[2].Info("master_link_status") == "up"; }, absl::Seconds(20)));
  const std::string again = absl::StrCat("redis://localhost:", group[1].port());
  const Look look = LookAt(group.url() + "," + again);
  EXPECT_EQ(look.code, 123) << look.output;
  EXPECT_THAT(look.Of("quorum"), AllOf(Says("note"), HasSubstr("there are 4 servers")));
  EXPECT_THAT(look.Of("independence"),
              AllOf(Says("bad"), HasSubstr("are one and the same server"), HasSubstr(again),
                    HasSubstr("have the same data"), HasSubstr(group[2].url())));
  EXPECT_THAT(look.Of("role"), AllOf(Says("bad"), HasSubstr("a replica of 127.0.0.1")));

  group[1].Kill();
  const Look half = LookAt(group.url());
  EXPECT_THAT(half.Of("servers"), AllOf(Says("warn"), HasSubstr(group[1].url())));
  group[0].Kill();
  EXPECT_THAT(LookAt(group.url()).Of("servers"),
              AllOf(Says("bad"), HasSubstr("1 of 3 answer, and 2 are needed")));
  group[2].Kill();
  const Look none = LookAt(group.url());
  EXPECT_EQ(none.code, 121);
  EXPECT_THAT(none.output, HasSubstr("\"verdict\":\"unreachable\""));
}

TEST_F(RedlatchQuorumDoctorTest, KnowsTheDelayThatOthersAskFor) {
  QuorumGroup group(3);
  ASSERT_EQ(CodeOf(*StartRedlatch({"run", "--wait", "0", "--lease", "1s", "job", "--", "true"},
                                  {"REDLATCH_URL=" + group.url("restart_delay=1m")})),
            120)
      << Errors();
  EXPECT_THAT(LookAt(group.url("restart_delay=1m")).Of("restarts"),
              AllOf(Says("note"), HasSubstr("has no vote for")));
  EXPECT_THAT(LookAt(group.url("restart_delay=1m")).Of("locks"), Says("ok"));
  EXPECT_THAT(LookAt(group.url("restart_delay=2m")).Of("restarts"),
              AllOf(Says("bad"), HasSubstr("restart_delay=1m")));
  EXPECT_THAT(LookAt(group.url()).Of("restarts"), Says("bad"));
}

TEST_F(RedlatchQuorumDoctorTest, SendsWhoHasClustersAsServersToThem) {
  const Look look = LookAt("redlock:redis-cluster://n1,redis://127.0.0.1:1");
  EXPECT_EQ(look.code, 125);
  EXPECT_THAT(Errors(), HasSubstr("--server redis-cluster://n1:6379"));
}

}  // namespace
}  // namespace redlatch
