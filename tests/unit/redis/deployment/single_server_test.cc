#include "src/redis/deployment/single_server.h"

#include "src/redis/url/url.h"
#include "tests/support/await.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

// A client that has subscribed, and the server.
class SingleServerTest : public ::testing::Test {
 protected:
  SingleServerTest() {
    EXPECT_TRUE(client_.Listen("key", base::Now() + absl::Seconds(10), {}).ok());
  }

  std::optional<std::string> Answer(const support::FakeServer::Asked& asked) {
    if (asked.command[0] == "SUBSCRIBE") ++subscribed_;
    if (asked.command[0] == "PING" && subscribed_ > 0) ++pinged_;
    asked.hang_up = asked.command[0] == "PING" && hangs_up_;
    return support::FakeServer::Polite(asked);
  }

  std::atomic<int> subscribed_{0};
  std::atomic<int> pinged_{0};
  std::atomic<bool> hangs_up_{false};
  std::atomic<int> reconnected_{0};
  support::FakeServer server_{[this](const auto& asked) { return Answer(asked); }};
  SingleServer client_{*ParseUrl(server_.url()),
                       "channel",
                       {},
                       /*mark=*/nullptr,
                       {.on_message = [](std::string_view) {},
                        .on_reconnected = [this] { ++reconnected_; },
                        .on_hearing = [](bool, std::string_view) {}}};
};

TEST_F(SingleServerTest, MissedMessageRenewsTheSubscription) {
  client_.Doubt("key", base::Now(), /*missed_since=*/base::Now());
  EXPECT_TRUE(support::Await([this] { return subscribed_ == 2; }));
  EXPECT_TRUE(support::Await([this] { return reconnected_ == 1; }));
}

TEST_F(SingleServerTest, LongWaitOnlyPingsTheSubscription) {
  client_.Doubt("key", base::Now(), /*missed_since=*/std::nullopt);
  EXPECT_TRUE(support::Await([this] { return pinged_ == 1; }));
  EXPECT_EQ(subscribed_, 1);
}

TEST_F(SingleServerTest, LostSubscriptionIsMadeAgainAndTold) {
  hangs_up_ = true;
  client_.Doubt("key", base::Now(), /*missed_since=*/std::nullopt);
  EXPECT_TRUE(support::Await([this] { return subscribed_ == 2 && reconnected_ == 1; }));
}

}  // namespace
}  // namespace redlatch::redis
