// Who releases a lock that others wait for, and comes again at once.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/lock_keys.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;

class HandOver : public ::testing::Test {
 protected:
  std::vector<Client> Crowd() {
    std::vector<Client> clients;
    for (int i = 0; i < 6; ++i) clients.push_back(Connect(server_->url()));
    return clients;
  }
  int64_t Waiting() {
    return server_->Integer({"ZCARD", support::AuxiliaryKey("lock", "simple.queue")});
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  Client client_ = Connect(server_->url());
  Client second_ = Connect(server_->url());
  Client third_ = Connect(server_->url());
  SimpleLock lock_{client_, "lock"};
};

// Its bid is taken for one that will be queued, so that its thread listens for the grant; but the
// server has granted it at once, and nothing will come.
TEST_F(HandOver, WhoeverComesAgainHasItSoonThoughTheOthersHaveLeft) {
  for (int i = 0; i < 8; ++i) {
    SimpleLock before(second_, "lock");
    before.lock();
    std::atomic<bool> alone{false};
    absl::Duration took;
    std::thread owner([&] {
      lock_.lock();
      while (!alone) std::this_thread::yield();
      lock_.unlock();
      const base::Instant begun = base::Now();
      lock_.lock();
      took = base::Now() - begun;
      lock_.unlock();
    });
    ASSERT_TRUE(Await([&] { return Waiting() == 1; }));
    SimpleLock behind(third_, "lock");
    absl::Status left;
    std::thread leaver([&] { left = behind.Acquire({.wait = absl::Milliseconds(100)}).status(); });
    ASSERT_TRUE(Await([&] { return Waiting() == 2; }));
    before.unlock();
    leaver.join();
    EXPECT_TRUE(absl::IsDeadlineExceeded(left)) << left;
    ASSERT_TRUE(Await([&] { return Waiting() == 0; }));
    alone = true;
    owner.join();
    EXPECT_LT(took, absl::Milliseconds(500)) << "no heartbeat was needed";
  }
}

// Each time both parts of a bid are there: what was sent, and what is to be read.
TEST_F(HandOver, AStopEndsTheWaitOfWhoComesAgain) {
  for (int i = 0; i < 50; ++i) {
    SimpleLock other(second_, "lock");
    std::atomic<bool> taken{false};
    std::atomic<bool> over{false};
    std::thread owner;
    std::stop_source stop;
    {
      const std::scoped_lock before(lock_);
      owner = std::thread([&] {
        other.lock();
        taken = true;
        while (!over) std::this_thread::yield();
        other.unlock();
      });
      ASSERT_TRUE(Await([&] { return Waiting() == 1; }));
    }
    std::thread stopper([&] {
      while (!taken) std::this_thread::yield();
      stop.request_stop();
    });
    const absl::Status status = lock_.Acquire({.stop = stop.get_token()}).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    over = true;
    owner.join();
    stopper.join();
  }
}

// Each comes again at once, so that answers to bids are left for others to read.
void Contend(
    const std::vector<Client>& clients, const std::function<void()>& each_200th = [] {}) {
  constexpr int kRounds = 200;
  int inside = 0;
  int total = 0;
  std::vector<std::thread> threads;
  for (const Client& client : clients) {
    threads.emplace_back([&] {
      SimpleLock lock(client, "lock");
      for (int k = 0; k < kRounds; ++k) {
        const std::scoped_lock guard(lock);
        EXPECT_EQ(++inside, 1);
        if (++total % 200 == 0) each_200th();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, static_cast<int>(clients.size()) * kRounds);
}

TEST_F(HandOver, ManyClientsThatComeAgainAtOnceKeepEachOtherOutAndLeaveNothing) {
  Contend(Crowd());
  for (const char* suffix : {"simple.queue", "simple.waiters"}) {
    EXPECT_EQ(server_->Integer({"EXISTS", support::AuxiliaryKey("lock", suffix)}), 0) << suffix;
  }
  EXPECT_EQ(server_->Integer({"EXISTS", "lock"}), 0);
}

TEST_F(HandOver, SoTheyDoWhileTheirConnectionsAreCut) {
  Contend(Crowd(), [&] {
    server_->Integer({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  });
  EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", "lock"}) == 0; }));
}

}  // namespace
}  // namespace redlatch
