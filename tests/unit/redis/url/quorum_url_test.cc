#include "src/redis/url/quorum_url.h"

#include "src/redis/url/url.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Why(std::string_view url) { return std::string(ParseUrl(url).status().message()); }

TEST(QuorumUrl, NamesItsServersAsTheyWereWritten) {
  const std::string url =
      "RedLock:redis://:p%2Cw@a/1?name=x,redis-cluster://n1,n2:7001?map=n1:1/m:2,n2:1/m:3,"
      "unix:///run/a,b.sock,rediss://c";
  EXPECT_THAT(MembersOf(url), ElementsAre("redis://:p%2Cw@a/1?name=x",
                                          "redis-cluster://n1,n2:7001?map=n1:1/m:2,n2:1/m:3",
                                          "unix:///run/a,b.sock", "rediss://c"));
  const auto parsed = ParseUrl(url);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->kind, Url::Kind::kQuorum);
  ASSERT_EQ(parsed->members.size(), 4U);
  EXPECT_EQ(parsed->members[0].password, "p,w");
  EXPECT_EQ(parsed->members[1].nodes.size(), 2U);
  EXPECT_EQ(parsed->members[2].path, "/run/a,b.sock");
}

TEST(QuorumUrl, DebugStringIsReadAgainAndHidesSecrets) {
  const auto parsed = ParseUrl("redlock:redis://me:secret@a,redis://b:7000");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->DebugString(), "redlock:redis://a:6379,redis://b:7000");
  EXPECT_TRUE(ParseUrl(parsed->DebugString()).ok());
}

TEST(QuorumUrl, SaysWhatIsWrong) {
  EXPECT_THAT(Why("redlock:"), HasSubstr("1 to 64 servers"));
  EXPECT_THAT(Why("redlock:redis://a,redis://a:6379"), HasSubstr("twice"));
  EXPECT_THAT(Why("redlock:redis://a,redlock:redis://b"), HasSubstr("is a quorum"));
  EXPECT_THAT(Why("redlock:redis://a?restart_delay=1m,redis://b"), HasSubstr("differs"));
  EXPECT_FALSE(ParseUrl("redlock:redis://a,").ok());
}

}  // namespace
}  // namespace redlatch::redis
