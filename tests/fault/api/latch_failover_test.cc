// A latch whose server is replaced by a replica that has not received every count. Those who
// counted repeat what they did; if they are gone, nobody waits for ever.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

constexpr absl::Duration kPromotionPatience = absl::Seconds(30);
// Heartbeats and repeats come each third of it; it is how long repeats are waited for, too.
constexpr absl::Duration kTtl = absl::Seconds(3);

class LatchFailover : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Await([&] {
      return replica_->Text({"INFO", "replication"}).find("master_link_status:up") !=
             std::string::npos;
    }));
  }

  ~LatchFailover() override {
    if (waiter_.joinable()) waiter_.join();
  }

  static bool Await(const std::function<bool()>& condition) {
    return support::Await(condition, kPromotionPatience);
  }
  Client Connect() { return *Client::Connect(primary_->url()); }
  static std::string CountAt(support::RedisServer& server) {
    return server.Text({"HGET", "latch", "count"});
  }
  // From here on the replica receives nothing.
  void Separate() {
    ASSERT_TRUE(Await([&] { return CountAt(*replica_) == CountAt(*primary_); }));
    replica_->Command({"REPLICAOF", "NO", "ONE"});
  }
  // The replica takes the primary's place.
  void Promote() {
    const std::string port = absl::StrCat(primary_->port());
    primary_->Kill();
    replica_->Command({"REPLICAOF", "NO", "ONE"});
    ASSERT_TRUE(Await([&] { return replica_->Text({"CONFIG", "SET", "port", port}) == "OK"; }));
  }

  // Somebody who waits, and has been told how many have counted.
  void StartWaiter(int64_t total) {
    waiter_ = std::thread([this, total] {
      const Client client = Connect();
      CountDownLatch latch(client, "latch", total, {.ttl = kTtl});
      status_ = latch.Wait({.wait = kPromotionPatience});
    });
    EXPECT_TRUE(Await([&] { return primary_->Integer({"HLEN", kWaiters}) == 1; }));
  }
  void AwaitHeartbeat() {
    const auto asked = [&] {
      const redis::Reply records = primary_->Command({"HVALS", kWaiters});
      return records.elements.empty() ? std::string() : records.elements[0].text.substr(0, 16);
    };
    const std::string before = asked();
    EXPECT_TRUE(Await([&] { return asked() > before; }));
  }
  absl::Status Outcome() {
    waiter_.join();
    return *status_;
  }

  int64_t Scripts() {
    const std::string stats = primary_->Text({"INFO", "commandstats"});
    const std::string name = "cmdstat_evalsha:calls=";
    const size_t at = stats.find(name);
    return at == std::string::npos ? 0 : std::atoll(stats.c_str() + at + name.size());
  }

  static constexpr char kWaiters[] = "redlatch:2:{latch}:latch.waiters";
  const std::unique_ptr<support::RedisServer> primary_ = support::RedisServer::Start();
  const std::unique_ptr<support::RedisServer> replica_ =
      support::RedisServer::Start({.replica_of = primary_->port()});
  std::thread waiter_;
  std::optional<absl::Status> status_;
};

TEST_F(LatchFailover, CountsThatWereLostAreRepeatedByThoseWhoCounted) {
  const Client client = Connect();
  CountDownLatch latch(client, "latch", 4, {.ttl = kTtl});
  ASSERT_TRUE(latch.CountDown(1, "received").ok());
  StartWaiter(4);
  Separate();
  {
    CountDownLatch other(client, "latch", 4, {.ttl = kTtl});
    ASSERT_TRUE(other.CountDown(1, "lost").ok());
    ASSERT_TRUE(other.CountDown(1, "lost as well").ok());
  }
  ASSERT_EQ(CountAt(*primary_), "1");
  ASSERT_EQ(CountAt(*replica_), "3");
  Promote();
  EXPECT_TRUE(Await([&] { return CountAt(*replica_) == "1"; })) << "though nobody uses it";
  const Client fourth = Connect();
  EXPECT_TRUE(CountDownLatch(fourth, "latch", 4, {.ttl = kTtl}).CountDown(1, "last").ok());
  EXPECT_TRUE(Outcome().ok()) << *status_;
}

TEST_F(LatchFailover, IfThoseWhoCountedAreGoneWhoeverWaitsIsToldThatItIsLost) {
  StartWaiter(3);
  {
    const Client client = Connect();
    CountDownLatch latch(client, "latch", 3, {.ttl = kTtl});
    ASSERT_TRUE(latch.CountDown(1, "received").ok());
    Separate();
    ASSERT_TRUE(latch.CountDown(1, "lost").ok());
  }
  AwaitHeartbeat();
  Promote();
  const base::Instant promoted = base::Now();
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_LT(base::Now() - promoted, kPromotionPatience / 2);
  EXPECT_EQ(replica_->Integer({"EXISTS", "latch"}), 0);
}

// What it costs if the server is not replaced.

}  // namespace
}  // namespace redlatch
