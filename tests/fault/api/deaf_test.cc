// An address that leads to two servers alternately: it is refused. If the user may not ask for
// their run ids, the subscription is always at the other server, and no message arrives.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "tests/support/await.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

class Events : public Observer {
 public:
  void OnDeaf(std::string_view server, std::string_view why) override {
    const base::MutexLock lock(mu_);
    EXPECT_FALSE(server.empty());
    EXPECT_NE(why.find("several servers"), std::string_view::npos) << why;
    ++deaf_;
    changed_.SignalAll();
  }
  void OnHearsAgain(std::string_view) override {
    const base::MutexLock lock(mu_);
    ++hears_;
    changed_.SignalAll();
  }
  bool AwaitDeaf() { return Await(deaf_); }
  bool AwaitHearsAgain() { return Await(hears_); }
  int deaf() {
    const base::MutexLock lock(mu_);
    return deaf_;
  }

 private:
  bool Await(const int& events) {
    const base::Instant deadline = base::Now() + kPatience;
    const base::MutexLock lock(mu_);
    while (events == 0 && base::Now() < deadline) changed_.WaitUntil(mu_, deadline);
    return events > 0;
  }

  base::Mutex mu_;
  base::CondVar changed_;
  int deaf_ = 0;
  int hears_ = 0;
};

class Deaf : public ::testing::Test {
 protected:
  Deaf() {
    proxy_.LeadTo({first_->port(), second_->port()});
    // The client cannot find out if both are the same server.
    for (const auto& each : {first_.get(), second_.get()}) {
      each->Do({"ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info"});
    }
  }
  std::string Url() const { return "redis://app:secret@" + proxy_.url().substr(8); }

  // Someone else has the lock, at either server.
  void Hold() {
    at_first_.emplace(*SimpleLock(*Client::Connect(first_->url()), "lock").Acquire());
    at_second_.emplace(*SimpleLock(*Client::Connect(second_->url()), "lock").Acquire());
  }
  void LetGo() {
    at_first_.reset();
    at_second_.reset();
  }

  const std::unique_ptr<support::RedisServer> first_ = support::RedisServer::Start();
  const std::unique_ptr<support::RedisServer> second_ = support::RedisServer::Start();
  support::TcpProxy proxy_{{.port = first_->port()}};
  const std::shared_ptr<Events> events_ = std::make_shared<Events>();
  std::optional<Lease> at_first_;
  std::optional<Lease> at_second_;
};

TEST_F(Deaf, AClientIsToldAndGetsTheLockByAsking) {
  Hold();
  SimpleLock lock(*Client::Connect(Url(), {.observer = events_}), "lock");
  std::thread waiter([&] {
    const auto lease = lock.Acquire({.wait = kPatience});
    EXPECT_TRUE(lease.ok()) << lease.status();
  });
  EXPECT_TRUE(events_->AwaitDeaf());
  LetGo();
  const base::Instant free = base::Now();
  waiter.join();
  EXPECT_LT(base::Now() - free, absl::Seconds(5));  // the heartbeat is 10 s
}

TEST_F(Deaf, AClientDoesNotGoOnConnecting) {
  Hold();
  SimpleLock lock(*Client::Connect(Url(), {.observer = events_}), "lock");
  std::thread waiter([&] { EXPECT_FALSE(lock.Acquire({.wait = absl::Seconds(4)}).ok()); });
  EXPECT_TRUE(events_->AwaitDeaf());
  EXPECT_LE(proxy_.stats().accepted, 8);
  waiter.join();
  EXPECT_LE(proxy_.stats().accepted, 16);
  EXPECT_EQ(events_->deaf(), 1) << "once";
}

TEST_F(Deaf, AClientHearsAgainOnceTheAddressLeadsToOneServer) {
  Hold();
  SimpleLock lock(*Client::Connect(Url(), {.observer = events_}), "lock");
  std::thread waiter([&] {
    const auto lease = lock.Acquire({.wait = kPatience});
    EXPECT_TRUE(lease.ok()) << lease.status();
  });
  EXPECT_TRUE(events_->AwaitDeaf());
  proxy_.LeadTo({first_->port()});
  EXPECT_TRUE(events_->AwaitHearsAgain());
  LetGo();
  waiter.join();
}

// Others that hear have the lock in turn, and never leave it free.
TEST_F(Deaf, AClientIsNotStarvedByThoseThatHear) {
  SimpleLock lock(*Client::Connect(Url(), {.observer = events_}), "lock");
  std::atomic<bool> over{false};
  std::vector<std::thread> crew;
  for (const auto* server : {first_.get(), first_.get(), second_.get(), second_.get()}) {
    crew.emplace_back([&, server] {
      SimpleLock theirs(*Client::Connect(server->url()), "lock");
      while (!over) {
        const auto lease = theirs.Acquire({.wait = kPatience});
        EXPECT_TRUE(lease.ok()) << lease.status();
      }
    });
  }
  for (int i = 0; i < 3; ++i) {
    const auto lease = lock.Acquire({.wait = kPatience});
    EXPECT_TRUE(lease.ok()) << lease.status();
  }
  over = true;
  for (std::thread& each : crew) each.join();
}

using TwoPrimaries = Deaf;

TEST_F(TwoPrimaries, AreRefusedAtConnect) {
  const absl::Status refused = Client::Connect(proxy_.url()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(refused.message().find("leads to two primaries"), absl::string_view::npos) << refused;
}

TEST_F(TwoPrimaries, AreRefusedByTheFirstCallOfALazyClient) {
  const Client client = *Client::Connect(proxy_.url(), {.connect = ConnectPolicy::kLazy});
  const absl::Status refused = SimpleLock(client, "lock").Acquire().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
}

TEST_F(TwoPrimaries, AreRefusedAfterAReconnect) {
  proxy_.LeadTo({first_->port()});
  const Client client = *Client::Connect(proxy_.url());
  SimpleLock lock(client, "lock");
  ASSERT_TRUE(lock.Acquire().ok());
  proxy_.LeadTo({second_->port(), first_->port()});
  first_->Do({"CLIENT", "KILL", "TYPE", "normal"});
  const absl::Status refused = lock.Acquire().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  // But not when only one is left.
  proxy_.LeadTo({second_->port()});
  EXPECT_TRUE(support::Await([&] { return lock.Acquire().ok(); }));
}

TEST_F(TwoPrimaries, ARestartOfOneServerIsNoSecondServer) {
  proxy_.LeadTo({first_->port()});
  const Client client = *Client::Connect(proxy_.url());
  SimpleLock lock(client, "lock");
  for (int i = 0; i < 3; ++i) {
    first_->Restart();
    EXPECT_TRUE(lock.Acquire().ok()) << i;
  }
}

}  // namespace
}  // namespace redlatch
