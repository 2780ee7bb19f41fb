// An address that leads to two servers alternately: it is refused. If the user may not ask for
// their run ids, the subscription is always at the other server, and no message arrives.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/red_lock.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "tests/support/authority.h"
#include "tests/support/await.h"
#include "tests/support/fake_sentinel.h"
#include "tests/support/quorum_group.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch {
namespace {

constexpr absl::Duration kDeafPatience = absl::Seconds(30);

class DeafEvents : public Observer {
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

 private:
  bool Await(const int& events) {
    const base::Instant deadline = base::Now() + kDeafPatience;
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
  const std::shared_ptr<DeafEvents> events_ = std::make_shared<DeafEvents>();
  std::optional<Lease> at_first_;
  std::optional<Lease> at_second_;
};

TEST_F(Deaf, AClientHearsAgainOnceTheAddressLeadsToOneServer) {
  Hold();
  SimpleLock lock(*Client::Connect(Url(), {.observer = events_}), "lock");
  std::thread waiter([&] {
    const auto lease = lock.Acquire({.wait = kDeafPatience});
    EXPECT_TRUE(lease.ok()) << lease.status();
  });
  EXPECT_TRUE(events_->AwaitDeaf());
  proxy_.LeadTo({first_->port()});
  EXPECT_TRUE(events_->AwaitHearsAgain());
  LetGo();
  waiter.join();
}

enum class Way { kServer, kTls, kSentinel };

class TwoPrimaries : public ::testing::TestWithParam<Way> {
 protected:
  TwoPrimaries() { LeadTo({first_.get(), second_.get()}); }

  static bool with_tls() { return GetParam() == Way::kTls; }
  std::unique_ptr<support::RedisServer> StartOne() const {
    if (!with_tls()) return support::RedisServer::Start();
    return support::RedisServer::Start(
        {.tls = support::ServerTls{.cert = cert_, .ca = authority_.file()}});
  }
  void LeadTo(const std::vector<support::RedisServer*>& servers) {
    std::vector<int> ports;
    for (const auto* each : servers) ports.push_back(with_tls() ? each->tls_port() : each->port());
    proxy_.LeadTo(ports);
  }
  std::string Url() const {
    if (GetParam() == Way::kSentinel) return "redis-sentinel://" + sentinel_.address() + "/s";
    if (!with_tls()) return proxy_.url();
    return absl::StrCat("rediss://127.0.0.1:", proxy_.port(), "?ca=", authority_.file());
  }

  support::Authority authority_;
  const std::string cert_ = authority_.Certify();
  const std::unique_ptr<support::RedisServer> first_ = StartOne();
  const std::unique_ptr<support::RedisServer> second_ = StartOne();
  support::TcpProxy proxy_{{.port = first_->port()}};
  const support::FakeSentinel sentinel_{[this] { return proxy_.port(); }};
};

TEST_P(TwoPrimaries, AreRefusedAtConnect) {
  const absl::Status refused = Client::Connect(Url()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_NE(refused.message().find("leads to two primaries"), absl::string_view::npos) << refused;
}

TEST_P(TwoPrimaries, AreRefusedByTheFirstCallOfALazyClient) {
  const Client client = *Client::Connect(Url(), {.connect = ConnectPolicy::kLazy});
  const absl::Status refused = SimpleLock(client, "lock").Acquire().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
}

TEST_P(TwoPrimaries, AreRefusedAfterAReconnect) {
  LeadTo({first_.get()});
  const Client client = *Client::Connect(Url());
  SimpleLock lock(client, "lock");
  ASSERT_TRUE(lock.Acquire().ok());
  // The client first asks the server that sentinels name for its role.
  if (GetParam() == Way::kSentinel) LeadTo({first_.get(), second_.get()});
  if (GetParam() != Way::kSentinel) LeadTo({second_.get(), first_.get()});
  first_->Do({"CLIENT", "KILL", "TYPE", "normal"});
  const absl::Status refused = lock.Acquire().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  // But not when only one is left.
  LeadTo({second_.get()});
  EXPECT_TRUE(support::Await([&] { return lock.Acquire().ok(); }));
}

TEST_P(TwoPrimaries, ARestartOfOneServerIsNoSecondServer) {
  LeadTo({first_.get()});
  const Client client = *Client::Connect(Url());
  SimpleLock lock(client, "lock");
  for (int i = 0; i < 3; ++i) {
    first_->Restart();
    EXPECT_TRUE(lock.Acquire().ok()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, TwoPrimaries,
                         ::testing::Values(Way::kServer, Way::kTls, Way::kSentinel),
                         [](const auto& its) {
                           if (its.param == Way::kServer) return "Server";
                           return its.param == Way::kTls ? "Tls" : "Sentinel";
                         });

// The address would have a vote at either primary, and two majorities could share it alone.
TEST(TwoPrimariesInAQuorum, HaveNoVote) {
  support::QuorumGroup servers(4);
  support::TcpProxy proxy({.port = servers[0].port()});
  proxy.LeadTo({servers[0].port(), servers[1].port()});
  const std::string url =
      absl::StrCat("redlock:", proxy.url(), ",", servers[2].url(), ",", servers[3].url());
  const Client client = *Client::Connect(url);
  RedLock lock(client, "lock");
  for (int i = 0; i < 20; ++i) {
    const auto lease = lock.Acquire({.wait = kDeafPatience});
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(servers[0].Integer({"EXISTS", "lock"}) + servers[1].Integer({"EXISTS", "lock"}), 0);
  }
  servers[3].Kill();
  const absl::Status refused = lock.TryAcquire().status();
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("leads to two primaries"), absl::string_view::npos) << refused;
}

}  // namespace
}  // namespace redlatch
