// A latch whose server is replaced by a replica that has not received every count. Those who
// counted repeat what they did; if they are gone, nobody waits for ever.

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr absl::Duration kPromotionPatience = absl::Seconds(30);
// Heartbeats and repeats come each third of it; it is how long repeats are waited for, too.
constexpr absl::Duration kTtl = absl::Seconds(3);

class LatchFailover : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(replica_->AwaitInfo("master_link_status", "up")); }

  ~LatchFailover() override {
    if (waiter_.joinable()) waiter_.join();
  }

  static bool Await(const std::function<bool()>& condition) {
    return support::Await(condition, kPromotionPatience);
  }
  static std::string CountAt(RedisServer& server) {
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
      const Client client = Connect(primary_->url());
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

  static constexpr char kWaiters[] = "redlatch:2:{latch}:latch.waiters";
  const std::unique_ptr<RedisServer> primary_ = RedisServer::Start();
  const std::unique_ptr<RedisServer> replica_ =
      RedisServer::Start({.replica_of = primary_->port()});
  std::thread waiter_;
  std::optional<absl::Status> status_;
};

TEST_F(LatchFailover, CountsThatWereLostAreRepeatedByThoseWhoCounted) {
  const Client client = Connect(primary_->url());
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
  const Client fourth = Connect(primary_->url());
  EXPECT_TRUE(CountDownLatch(fourth, "latch", 4, {.ttl = kTtl}).CountDown(1, "last").ok());
  EXPECT_TRUE(Outcome().ok()) << *status_;
}

TEST_F(LatchFailover, IfThoseWhoCountedAreGoneWhoeverWaitsIsToldThatItIsLost) {
  StartWaiter(3);
  {
    const Client client = Connect(primary_->url());
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

}  // namespace
}  // namespace redlatch
