// Tests `redlatch run --wait` if no server is available at first: the command runs as soon as one
// is.
#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/fake_server.h"

namespace redlatch {
namespace {

struct RedlatchRunWaitsForServer : RedlatchRunTest {
  void ExpectToWait(const std::string& url, const std::vector<RedisServer*>& servers) {
    SCOPED_TRACE(url);
    for (RedisServer* each : servers) each->Kill();
    const auto run = Start({"--wait", "60s", "job", "--", "true"}, {"REDLATCH_URL=" + url});
    EXPECT_FALSE(run->WaitFor(absl::Milliseconds(300))) << Errors();
    for (RedisServer* each : servers) each->Restart();
    EXPECT_EQ(CodeOf(*run), 0) << Errors();
  }
};

TEST_F(RedlatchRunWaitsForServer, OfEveryServerGroup) {
  ExpectToWait(server_->url(), {server_.get()});
  const support::FakeSentinel sentinel([this] { return server_->port(); });
  ExpectToWait("redis-sentinel://" + sentinel.address() + "/m", {server_.get()});
  QuorumGroup quorum(3);
  ExpectToWait(quorum.url(), {&quorum[0], &quorum[1]});
  const auto cluster = support::StartClusterOfOne({.append_only = true});
  ExpectToWait(absl::StrCat("redis-cluster://127.0.0.1:", cluster->port()), {cluster.get()});
}

}  // namespace
}  // namespace redlatch
