// Holds that count only when replicas have them.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch {
namespace {

using ::testing::HasSubstr;

using support::Await;
using support::Direction;

class ReplicaAcks : public ::testing::Test {
 protected:
  ReplicaAcks() {
    for (int i = 0; i < 2; ++i) {
      links_.push_back(
          std::make_unique<support::TcpProxy>(support::TcpProxyOptions{.port = primary_->port()}));
      replicas_.push_back(support::RedisServer::Start({.replica_of = links_.back()->port()}));
    }
    // Twice: one that has just copied all data has the first, and then may hear nothing for a
    // second.
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(Await([&] {
        primary_->Command({"SET", "first", "", "PX", "1"});
        return primary_->Integer({"WAIT", "2", "100"}) == 2;
      }));
    }
  }
  // From here on it receives nothing; the primary goes on as if it did.
  void Separate(size_t replica) {
    links_[replica]->Drop(Direction::kToServer);
    links_[replica]->Drop(Direction::kToClient);
  }
  static LockOptions Acked(int replicas, absl::Duration lease = absl::Seconds(30)) {
    return {.lease = lease, .replica_acks = replicas, .ack_timeout = absl::Seconds(1)};
  }

  const std::unique_ptr<support::RedisServer> primary_ = support::RedisServer::Start();
  std::vector<std::unique_ptr<support::TcpProxy>> links_;
  std::vector<std::unique_ptr<support::RedisServer>> replicas_;
  const Client client_ = *Client::Connect(primary_->url());
};

using Take = std::function<absl::StatusOr<Lease>()>;

TEST_F(ReplicaAcks, WhenAcquireReturnsTheReplicasHaveTheHold) {
  SimpleLock simple(client_, "simple", Acked(2));
  ReentrantLock reentrant(client_, "reentrant", Acked(2));
  ReentrantReadWriteLock written(client_, "written", Acked(2));
  ReentrantReadWriteLock read(client_, "read", Acked(2));
  const std::vector<std::pair<std::string, Take>> ways = {
      {"simple", [&] { return simple.Acquire(); }},
      {"reentrant", [&] { return reentrant.Acquire({.lease = absl::Seconds(20)}); }},
      {"written", [&] { return written.Acquire({}); }},
      {"redlatch:rw:{read}:readers", [&] { return read.AcquireRead({}); }}};
  for (const auto& [key, take] : ways) {
    SCOPED_TRACE(key);
    for (int round = 0; round < 20; ++round) {
      absl::StatusOr<Lease> lease = take();
      ASSERT_TRUE(lease.ok()) << lease.status();
      EXPECT_EQ(lease->acked_by(), 2);
      for (const auto& each : replicas_) EXPECT_EQ(each->Integer({"EXISTS", key}), 1);
      EXPECT_TRUE(lease->Release().ok());
    }
  }
}

TEST_F(ReplicaAcks, WithoutEnoughOfThemTheLockIsGivenBack) {
  Separate(1);
  SimpleLock lock(client_, "lock", Acked(2));
  const absl::StatusOr<Lease> lease = lock.Acquire();
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(lease.status().message()),
              AllOf(HasSubstr("lock \"lock\""), HasSubstr("1 of 2 replicas have confirmed it")));
  EXPECT_EQ(primary_->Integer({"EXISTS", "lock"}), 0);
  try {
    lock.lock();
    ADD_FAILURE() << "it is taken";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), MakeErrorCode(absl::StatusCode::kUnavailable));
  }
  EXPECT_EQ(primary_->Integer({"EXISTS", "lock"}), 0);
  // One is enough for another lock; and for this one, as soon as both are back.
  SimpleLock modest(client_, "modest", Acked(1));
  EXPECT_EQ(modest.Acquire()->acked_by(), 1);
  links_[1]->Heal();
  EXPECT_TRUE(Await([&] { return lock.Acquire().ok(); }, absl::Seconds(30)));
}

TEST_F(ReplicaAcks, WhoWantsFewerIsNotKeptWaitingByWhoWantsMore) {
  Separate(1);
  SimpleLock demanding(
      client_, "demanding",
      {.lease = absl::Hours(1), .replica_acks = 2, .ack_timeout = absl::Minutes(10)});
  SimpleLock modest(client_, "modest", Acked(1));
  absl::Status refused;
  std::thread waiter([&] { refused = demanding.Acquire().status(); });
  EXPECT_TRUE(Await([&] { return primary_->Integer({"EXISTS", "demanding"}) == 1; }));
  const base::Instant began = base::Now();
  for (int round = 0; round < 10; ++round) {
    const absl::StatusOr<Lease> lease = modest.Acquire();
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(lease->acked_by(), 1);
  }
  EXPECT_LE(base::Now() - began, absl::Minutes(5));
  links_[1]->Heal();
  waiter.join();
  EXPECT_TRUE(refused.ok()) << refused;
}

// Each call must end long before the `ack_timeout`.
constexpr absl::Duration kAcksPatience = absl::Minutes(1);
constexpr absl::Duration kLongBefore = absl::Seconds(20);

absl::Status AcquireByCallback(SimpleLock& lock, absl::Duration wait) {
  std::promise<absl::Status> ended;
  lock.AcquireAsync({.wait = wait},
                    [&](const absl::StatusOr<Lease>& lease) { ended.set_value(lease.status()); });
  return ended.get_future().get();
}

TEST_F(ReplicaAcks, TimedCallsReturnAtTheEndOfTheirWait) {
  Separate(1);
  const LockOptions options{
      .lease = absl::Minutes(10), .replica_acks = 2, .ack_timeout = kAcksPatience};
  SimpleLock lock(client_, "lock", options);
  ReentrantReadWriteLock shared(client_, "shared", options);
  const auto thrown = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const std::system_error& error) {
      if (error.code() == MakeErrorCode(absl::StatusCode::kUnavailable)) {
        return absl::UnavailableError(error.what());
      }
    }
    return absl::InternalError("it was taken, or found busy");
  };
  constexpr absl::Duration kWait = absl::Milliseconds(10);
  const std::vector<std::pair<std::string, std::function<absl::Status()>>> calls = {
      {"Acquire", [&] { return lock.Acquire({.wait = kWait}).status(); }},
      {"AcquireRead", [&] { return shared.AcquireRead({.wait = kWait}).status(); }},
      {"TryAcquire", [&] { return lock.TryAcquire().status(); }},
      {"try_lock", [&] { return thrown([&] { lock.try_lock(); }); }},
      {"try_lock_for",
       [&] { return thrown([&] { lock.try_lock_for(std::chrono::milliseconds(10)); }); }},
      {"AcquireAsync", [&] { return AcquireByCallback(lock, kWait); }},
      {"AcquireAsync, not waiting", [&] { return AcquireByCallback(lock, absl::ZeroDuration()); }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const base::Instant began = base::Now();
    const absl::Status status = call();
    EXPECT_LE(base::Now() - began, kLongBefore);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_TRUE(Await([&] {
      return primary_->Integer({"EXISTS", "lock", "redlatch:rw:{shared}:readers"}) == 0;
    }));
  }
}

TEST_F(ReplicaAcks, TimedCallReturnsAlthoughTheServerHangs) {
  Separate(1);
  support::TcpProxy proxy({.port = primary_->port()});
  const Client client = *Client::Connect(proxy.url() + "?command_timeout=60s");
  SimpleLock lock(client, "lock",
                  {.lease = absl::Minutes(10), .replica_acks = 2, .ack_timeout = kAcksPatience});
  for (const bool blocking : {true, false}) {
    SCOPED_TRACE(blocking);
    std::atomic<bool> ended{false};
    absl::Status status;
    const base::Instant began = base::Now();
    std::thread caller([&] {
      status = blocking ? lock.Acquire({.wait = absl::Seconds(2)}).status()
                        : AcquireByCallback(lock, absl::Seconds(2));
      ended = true;
    });
    EXPECT_TRUE(Await([&] { return ended || primary_->Integer({"EXISTS", "lock"}) == 1; }));
    proxy.Drop(Direction::kToClient);
    caller.join();
    EXPECT_LE(base::Now() - began, kLongBefore);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    proxy.Heal();
    EXPECT_TRUE(Await([&] { return primary_->Integer({"EXISTS", "lock"}) == 0; }));
  }
}

TEST_F(ReplicaAcks, AcquireKeepsTryingAfterHalfOfItsLease) {
  Separate(1);
  SimpleLock lock(client_, "lock",
                  {.lease = absl::Seconds(1), .replica_acks = 2, .ack_timeout = kAcksPatience});
  absl::StatusOr<Lease> lease;
  std::atomic<bool> ended{false};
  std::thread caller([&] {
    lease = lock.Acquire();
    ended = true;
  });
  std::set<std::string> grants;  // each was given up because no replica confirmed it
  EXPECT_TRUE(Await([&] {
    const redis::Reply grant = primary_->Do({"GET", "lock"});
    if (grant.type == redis::Reply::Type::kString) grants.insert(grant.text);
    return ended || grants.size() == 3;
  }));
  links_[1]->Heal();
  caller.join();
  EXPECT_TRUE(lease.ok()) << lease.status();
}

TEST_F(ReplicaAcks, NumbersThatMakeNoSenseAreRefused) {
  for (const LockOptions& options :
       {LockOptions{.replica_acks = -1},
        LockOptions{.replica_acks = 1, .ack_timeout = absl::ZeroDuration()}}) {
    SimpleLock lock(client_, "lock", options);
    EXPECT_EQ(lock.Acquire().status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(DiskAcks, AreOfTheServersThatHaveThem) {
  const auto server = support::RedisServer::Start({.append_only = true});
  const Client client = *Client::Connect(server->url());
  SimpleLock lock(client, "lock", {.fsync = true});
  const absl::StatusOr<Lease> lease = lock.Acquire();
  if (server->Command({"COMMAND", "INFO", "WAITAOF"}).elements.at(0).elements.empty()) {
    EXPECT_EQ(lease.status().code(), absl::StatusCode::kFailedPrecondition) << lease.status();
    EXPECT_THAT(std::string(lease.status().message()), HasSubstr("needs Redis 7.2 or later"));
    EXPECT_EQ(server->Integer({"EXISTS", "lock"}), 0);
    return;
  }
  // The fixture leaves syncing to the kernel: nothing is on the disk for certain.
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kUnavailable) << lease.status();
  server->Command({"CONFIG", "SET", "appendfsync", "everysec"});
  EXPECT_TRUE(Await([&] { return lock.Acquire().ok(); }, absl::Seconds(30)));
}

}  // namespace
}  // namespace redlatch
