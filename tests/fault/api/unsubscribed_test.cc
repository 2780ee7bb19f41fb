// An address that leads to two servers alternately is refused, and a user who is denied the
// client's channel is told.
#include "tests/support/authority.h"
#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);

class SubscriptionEvents : public Observer {
 public:
  void OnUnsubscribed(std::string_view server, std::string_view why) override {
    EXPECT_FALSE(server.empty());
    EXPECT_NE(why.find("&redlatch:*"), std::string_view::npos) << why;
    ++unsubscribed;
  }
  void OnResubscribed(std::string_view) override { ++resubscribed; }

  std::atomic<int> unsubscribed = 0;
  std::atomic<int> resubscribed = 0;
};

TEST(Unsubscribed, IsToldAndSubscribedAgainOnceAllowed) {
  const auto server = RedisServer::Start();
  const auto set = [&](const char* channels) {
    server->Do(
        {"ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "resetchannels", channels});
  };
  set("&*");
  const auto held = Must(SimpleLock(Connect(server->url()), "lock").Acquire());
  const auto events = std::make_shared<SubscriptionEvents>();
  SimpleLock lock(Connect("redis://app:secret@" + server->url().substr(8), {.observer = events}),
                  "lock");
  set("&other");
  EXPECT_THAT(lock.Acquire({.wait = kTimeout}).status(),
              IsError(absl::StatusCode::kPermissionDenied, HasSubstr("&redlatch:*")));
  EXPECT_TRUE(Await([&] { return events->unsubscribed > 0; }));
  set("&*");
  EXPECT_TRUE(absl::IsDeadlineExceeded(lock.Acquire({.wait = absl::Milliseconds(50)}).status()));
  EXPECT_TRUE(Await([&] { return events->resubscribed > 0; }));
}

void ExpectTwo(const absl::Status& refused,
               absl::StatusCode code = absl::StatusCode::kFailedPrecondition) {
  EXPECT_THAT(refused, IsError(code, HasSubstr("leads to two primaries")));
}

struct TwoPrimaries : ::testing::TestWithParam<const char*> {
  const std::string way_ = GetParam();
  support::Authority authority_;
  const support::RedisServerOptions options_ = {
      .tls = support::ServerTls{.cert = authority_.Certify(), .ca = authority_.file()}};
  const std::unique_ptr<RedisServer> first_ = RedisServer::Start(options_);
  const std::unique_ptr<RedisServer> second_ = RedisServer::Start(options_);
  const int one_ = way_ == "Tls" ? first_->tls_port() : first_->port();
  const int other_ = way_ == "Tls" ? second_->tls_port() : second_->port();
  TcpProxy proxy_{{.port = one_}};
  const support::FakeSentinel sentinel_{[this] { return proxy_.port(); }};
  const std::string url_ =
      way_ == "Tls" ? absl::StrCat("rediss://127.0.0.1:", proxy_.port(), "?ca=", authority_.file())
      : way_ == "Sentinel" ? "redis-sentinel://" + sentinel_.address() + "/s"
                           : proxy_.url();
};

TEST_P(TwoPrimaries, AreRefusedAtConnectAndReconnect) {
  proxy_.LeadTo({one_, other_});
  ExpectTwo(Client::Connect(url_).status());
  const Client lazy = Connect(url_, {.connect = ConnectPolicy::kLazy});
  ExpectTwo(SimpleLock(lazy, "lock").Acquire().status());
  proxy_.LeadTo({one_});
  const Client client = Connect(url_);
  SimpleLock lock(client, "lock");
  ASSERT_TRUE(lock.Acquire().ok());
  // Each attempt first asks the server that the sentinels name for its role.
  proxy_.LeadTo(way_ == "Sentinel" ? std::vector{one_, other_, one_} : std::vector{other_, one_});
  first_->KillClients();
  // The name may lead to one server again soon.
  ExpectTwo(lock.Acquire({.wait = absl::Seconds(1)}).status(), absl::StatusCode::kUnavailable);
  // It is accepted once only one server is left.
  proxy_.LeadTo({other_});
  EXPECT_TRUE(Await([&] { return lock.Acquire().ok(); }));
}

TEST_P(TwoPrimaries, RestartedServerIsAccepted) {
  for (int i = 0; i < 3; ++i) {
    first_->Restart();
    EXPECT_TRUE(SimpleLock(Connect(url_), "lock").Acquire().ok()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, TwoPrimaries, ::testing::Values("Server", "Tls", "Sentinel"),
                         [](const auto& its) { return its.param; });

// Otherwise the address would have a vote at either primary, and two majorities could have only the
// address in common.
TEST(TwoPrimariesAsNode, NodeHasNoVote) {
  QuorumGroup servers(4);
  TcpProxy proxy({.port = servers[0].port()});
  proxy.LeadTo({servers[0].port(), servers[1].port()});
  RedLock lock(
      Connect(absl::StrCat("redlock:", proxy.url(), ",", servers[2].url(), ",", servers[3].url())),
      "lock");
  for (int i = 0; i < 20; ++i) {
    const auto lease = Must(lock.Acquire({.wait = kTimeout}));
    EXPECT_EQ(servers[0].Integer({"EXISTS", "lock"}) + servers[1].Integer({"EXISTS", "lock"}), 0);
  }
  servers[3].Kill();
  const absl::Status refused = lock.TryAcquire().status();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("leads to two primaries"));
}

}  // namespace
}  // namespace redlatch
