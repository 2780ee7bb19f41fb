#include "redlatch/count_down_latch.h"

#include <mutex>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/scripts.h"
#include "redlatch/client.h"
#include "src/lock/client_core.h"
#include "tests/support/await.h"
#include "tests/support/fake_server.h"

namespace redlatch {
namespace {

using support::FakeServer;

TEST(CountDownLatch, OpenerWakesAllWindowsOfWaiters) {
  std::mutex mu;
  std::vector<std::string> ids;
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (FakeServer::Runs(asked, lua::kLatchCreate)) return FakeServer::Bulk("made 1");
    if (!FakeServer::Runs(asked, lua::kLatchCountDown)) return FakeServer::Polite(asked);
    const std::lock_guard lock(mu);
    ids.push_back(asked.command[9]);
    return FakeServer::Bulk(ids.size() < 3 ? "0 1000 look 1" : "0 1000");
  });
  const absl::StatusOr<Client> client = Client::Connect(server.url());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(CountDownLatch(*client, "start", 1).CountDown().ok());
  const std::lock_guard lock(mu);
  ASSERT_GE(ids.size(), 3U);
  EXPECT_EQ(ids[0], ids[2]);
}

// The old server answers a count; before the thread notes that, the client has a new connection.
TEST(CountDownLatch, CountIsRepeatedIfItsAnswerIsNotedAfterFailover) {
  internal::Counts* counts = nullptr;
  std::string first;
  std::atomic<int> sent{0};
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (FakeServer::Runs(asked, lua::kLatchCreate)) return FakeServer::Bulk("made 1");
    if (!FakeServer::Runs(asked, lua::kLatchCountDown)) return FakeServer::Polite(asked);
    if (first.empty()) {
      first = asked.command[9];
      counts->RepeatAll();
    }
    if (asked.command[9] == first) ++sent;
    return FakeServer::Bulk("1 1000");
  });
  const absl::StatusOr<Client> client = Client::Connect(server.url());
  ASSERT_TRUE(client.ok()) << client.status();
  counts = &client->core()->counts();
  EXPECT_TRUE(CountDownLatch(*client, "start", 2).CountDown().ok());
  EXPECT_TRUE(CountDownLatch(*client, "end", 2).CountDown().ok());
  EXPECT_TRUE(support::Await([&] { return sent > 1; }));
}

// It may have been executed, and a waiter told so, before a failover lost it.
TEST(CountDownLatch, RepeatOfUnansweredCountIsPlacedFirst) {
  std::mutex mu;
  std::vector<std::vector<std::string>> counts;
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (FakeServer::Runs(asked, lua::kLatchCreate)) return FakeServer::Bulk("made 1");
    if (!FakeServer::Runs(asked, lua::kLatchCountDown)) return FakeServer::Polite(asked);
    const std::lock_guard lock(mu);
    counts.emplace_back(asked.command.begin() + 9, asked.command.end());
    if (counts.size() == 1) return std::nullopt;
    return FakeServer::Bulk("0 1000");
  });
  const absl::StatusOr<Client> client = Client::Connect(server.url());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(CountDownLatch(*client, "start", 1).CountDown().ok());
  const std::lock_guard lock(mu);
  ASSERT_GE(counts.size(), 2U);
  const std::string& id = counts[0][0];
  EXPECT_THAT(counts[0], ::testing::ElementsAre(id, "1"));
  EXPECT_THAT(counts[1], ::testing::ElementsAre(id, "1", "0"));
}

}  // namespace
}  // namespace redlatch
