#include "src/redis/server_group/single_server.h"

#include <cstring>

#include "src/redis/url/url.h"
#include "tests/support/await.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

// A client and two servers; a sentinel says which one is the primary.
struct SentinelServerTest : ::testing::Test {
  // A server, and the commands that it received.
  struct Server {
    std::atomic<int> subscribed{0};
    std::atomic<int> called{0};
    support::FakeServer fake{[this](const support::FakeServer::Asked& asked) {
      if (asked.command[0] == "SUBSCRIBE") ++subscribed;
      if (asked.command[0] == "CALL") ++called;
      return support::FakeServer::Polite(asked);
    }};
    int port() const { return std::stoi(fake.url().substr(fake.url().rfind(':') + 1)); }
  };

  std::optional<std::string> Sentinel(const support::FakeServer::Asked& asked) {
    const auto bulk = support::FakeServer::Bulk;
    const std::string primary = std::to_string(primary_.load()->port());
    if (asked.command[0] == "SENTINEL" && asked.command[1] == "GET-MASTER-ADDR-BY-NAME") {
      return "*2\r\n" + bulk("127.0.0.1") + bulk(primary);
    }
    if (asked.command[0] == "SENTINEL") return "*0\r\n";
    if (asked.command[0] != "SUBSCRIBE") return support::FakeServer::Polite(asked);
    if (!tells_) return std::nullopt;
    return *support::FakeServer::Polite(asked) + ">3\r\n" + bulk("message") +
           bulk("+switch-master") + bulk("m 127.0.0.1 1 127.0.0.1 " + primary);
  }

  void Call() {
    EXPECT_TRUE(client_.Call({}, Command({"CALL"}), base::Now() + absl::Seconds(10)).ok());
  }

  Server first_;
  Server second_;
  std::atomic<Server*> primary_{&first_};
  std::atomic<bool> tells_{false};  // the sentinel publishes the new primary
  support::FakeServer sentinel_{[this](const auto& asked) { return Sentinel(asked); }};
  SingleServer client_{
      *ParseUrl(absl::StrCat("redis-sentinel", sentinel_.url().substr(strlen("redis")), "/m")),
      "channel",
      {},
      {},
      /*mark=*/nullptr,
      {.on_message = [](std::string_view) {},
       .on_reconnected = [] {},
       .on_subscribed = [](bool, std::string_view) {}}};
};

TEST_F(SentinelServerTest, SubscriptionFollowsToNewPrimary) {
  EXPECT_TRUE(client_.Subscribe("key", base::Now() + absl::Seconds(10)).ok());
  EXPECT_TRUE(support::Await([this] { return first_.subscribed == 1; }));
  primary_ = &second_;
  tells_ = true;
  EXPECT_TRUE(support::Await([this] { return second_.subscribed == 1; }));
}

TEST_F(SentinelServerTest, CommandsGoToPrimaryNamedBySentinel) {
  Call();
  EXPECT_EQ(first_.called, 1);
  primary_ = &second_;
  tells_ = true;
  EXPECT_TRUE(support::Await([this] {
    Call();
    return second_.called > 0;
  }));
}

}  // namespace
}  // namespace redlatch::redis
