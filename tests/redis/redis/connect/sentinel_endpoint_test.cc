// Finding a primary through sentinels, of which some are dead or wrong.
#include "src/redis/connect/sentinel_endpoint.h"

#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"
#include "tests/support/reserved_port.h"
#include "tests/support/sentinel_group.h"

namespace redlatch::redis {
namespace {

using support::FakeSentinel;
using support::SentinelGroup;

Url Through(const std::vector<std::string>& sentinels) {
  return UrlOf("redis-sentinel://" + absl::StrJoin(sentinels, ",") + "/m");
}

// Where the endpoint leads; a failure as text.
std::string Found(Endpoint& endpoint) {
  const auto targets = endpoint.Targets(In(kPatience));
  return targets.ok() ? targets->front().address.text : targets.status().ToString();
}
std::string Found(const Url& url) { return Found(*MakeEndpoint(url)); }

std::string At(int port) { return absl::StrCat("127.0.0.1:", port); }

class SentinelEndpointTest : public ::testing::Test {
 protected:
  const std::unique_ptr<RedisServer> primary_ = RedisServer::Start();
  const std::unique_ptr<RedisServer> replica_ =
      RedisServer::Start({.replica_of = primary_->port()});
  FakeSentinel honest_{[this] { return primary_->port(); }};
};

TEST_F(SentinelEndpointTest, TheAddressThatMostNameIsBelieved) {
  const auto old = RedisServer::Start();  // it says that it is a primary, too
  FakeSentinel behind([&] { return old->port(); }, /*epoch=*/1);
  FakeSentinel second([this] { return primary_->port(); }, /*epoch=*/2);
  const auto endpoint =
      MakeEndpoint(Through({behind.address(), honest_.address(), second.address()}));
  Found(*endpoint);  // it is in a hurry, and takes the first that it hears of
  EXPECT_EQ(Found(*endpoint), At(primary_->port()));
  // Nor is the minority's if the other does not answer.
  primary_->Kill();
  EXPECT_THAT(Found(*endpoint), AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("names")));
}

TEST_F(SentinelEndpointTest, SaysWhyEachHasFailed) {
  const std::string nobody = At(support::ReservedPort().number());
  FakeSentinel wrong([this] { return replica_->port(); });
  primary_->Kill();
  EXPECT_THAT(
      Found(Through({nobody, wrong.address()})),
      AllOf(HasSubstr("UNAVAILABLE: cannot find the primary of redis-sentinel://"),
            HasSubstr(nobody), HasSubstr("Connection refused"),
            HasSubstr(absl::StrCat("names ", At(replica_->port()), ", which is a replica"))));
}

TEST_F(SentinelEndpointTest, SaysThatNoneKnowsThePrimary) {
  FakeSentinel other([] { return 0; });
  EXPECT_THAT(Found(Through({other.address()})),
              AllOf(HasSubstr("FAILED_PRECONDITION"),
                    HasSubstr("knows no primary called 'm' (but another)")));
}

TEST(SentinelEndpointOfAGroupTest, LearnsOfFurtherSentinels) {
  const auto group = SentinelGroup::Start();
  const auto endpoint = MakeEndpoint(UrlOf(absl::StrCat(
      "redis-sentinel://127.0.0.1:", group->sentinel(1).port(), "/", SentinelGroup::kPrimary)));
  EXPECT_EQ(Found(*endpoint), At(group->port(0)));
  group->sentinel(1).Kill();
  EXPECT_EQ(Found(*endpoint), At(group->port(0)));
}

TEST(SentinelEndpointOfAGroupTest, TellsTheSentinelsTheirOwnUserAndPassword) {
  const auto group = SentinelGroup::Start(
      {.replicas = 0, .server = {.password = "one"}, .sentinel = {.password = "two"}});
  const auto with = [&](const std::string& options) {
    std::string url = group->url() + options;
    return Found(UrlOf(url.replace(url.find("//"), 2, "//:one@")));
  };
  EXPECT_EQ(with("?sentinel_password=two"), At(group->port(0)));
  EXPECT_THAT(with("?sentinel_password=wrong"), HasSubstr("PERMISSION_DENIED"));
  EXPECT_THAT(with(""),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("cannot find the primary")));
  // What the server has to say of a wrong password it says to whoever connects.
  EXPECT_EQ(Found(UrlOf(group->url() + "?sentinel_password=two")), At(group->port(0)));
}

}  // namespace
}  // namespace redlatch::redis
