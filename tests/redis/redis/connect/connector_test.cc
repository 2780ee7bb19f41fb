// Attempts to connect: their results, their timing, and how later calls continue them.
#include "src/redis/connect/connector.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "src/redis/connect/sentinel.h"
#include "src/redis/transport/transport.h"
#include "tests/redis/redis/link/connection_fixture.h"
#include "tests/support/fake_server.h"

namespace redlatch::redis {
namespace {

using support::ReservedPort;

using Stepped = absl::StatusOr<std::optional<Accepted>>;

struct ConnectorTest : ::testing::Test {
  static Connector To(const std::string& url, TransportFactory open = nullptr) {
    return Connector(UrlOf(url), Handshake::Purpose::kCommands, std::move(open));
  }
  static Stepped Step(Connector& connector, absl::Duration wait = kAmpleTime) {
    return connector.Step(In(wait));
  }
  static bool Made(const Stepped& stepped) {
    EXPECT_TRUE(stepped.ok()) << stepped.status();
    return stepped.ok() && stepped->has_value();
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  TcpProxy proxy_{{.port = server_->port()}};
};

TEST_F(ConnectorTest, ConnectsOverIpv6) {
  if (!std::filesystem::exists("/proc/net/if_inet6")) GTEST_SKIP() << "this machine has no IPv6";
  const auto server = RedisServer::Start({.ipv6 = true});
  Connector connector = To(absl::StrCat("redis://[::1]:", server->port()));
  EXPECT_TRUE(Made(Step(connector)));
}

TEST_F(ConnectorTest, NamesUnreachableAddressAndReason) {
  const ReservedPort unused;
  for (const auto& [url, where, why] : std::vector<std::array<std::string, 3>>{
           {absl::StrCat("redis://127.0.0.1:", unused.number()),
            absl::StrCat("127.0.0.1:", unused.number()), "Connection refused"},
           {"redis://no-such-host.invalid:6379", "no-such-host.invalid", ""},
           {"unix:///nowhere/redis.sock", "/nowhere/redis.sock", "No such file"}}) {
    Connector connector = To(url);
    EXPECT_THAT(Step(connector).status(),
                IsError(absl::StatusCode::kUnavailable, AllOf(HasSubstr(where), HasSubstr(why))));
  }
}

// Behaves like a Unix socket whose mode denies the user access. A real one would not do, since
// tests may run as root.
class Forbidden final : public Transport {
 public:
  IoResult Connect() override { return {.kind = IoResult::Kind::kError, .error = EACCES}; }
  IoResult Read(char*, size_t) override { return {}; }
  IoResult Write(std::string_view) override { return {}; }
  Readiness Wait(Interest, int, base::Instant) override { return {}; }
  Polled BeginPoll(Interest) override { return {}; }
  void DiscardUnsent() override {}
};

TEST_F(ConnectorTest, ForbiddenServerIsNotReportedAsDown) {
  Connector connector =
      To(server_->unix_url(), [](const Target&) { return std::make_unique<Forbidden>(); });
  const Stepped stepped = Step(connector);
  EXPECT_THAT(stepped.status(), IsError(absl::StatusCode::kUnavailable,
                                        AllOf(HasSubstr("Permission denied"),
                                              HasSubstr("is this user allowed to connect"))));
}

struct SilentServerTest : ConnectorTest, ::testing::WithParamInterface<Arrival> {
  void SetUp() override { proxy_.SetArrival(GetParam()); }
};

TEST_P(SilentServerTest, IsGivenUpAtTheConnectTimeout) {
  Connector connector = To(proxy_.url() + "?connect_timeout=150ms");
  const base::Instant deadline = In(absl::Milliseconds(150));
  Punctuality punctuality;
  const Stepped stepped = Step(connector);
  punctuality.Note(deadline);
  EXPECT_GE(base::Now(), deadline);
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_THAT(stepped.status(), IsError(absl::StatusCode::kUnavailable,
                                        AllOf(HasSubstr(proxy_.url()), HasSubstr("150ms"))));
}

TEST_P(SilentServerTest, DeadlineEndsCallNotAttempt) {
  Connector connector = To(proxy_.url() + "?connect_timeout=10s");
  Punctuality punctuality;
  for (int i = 0; i < 3; ++i) {
    const base::Instant deadline = In(absl::Milliseconds(30));
    const Stepped stepped = connector.Step(deadline);
    punctuality.Note(deadline);
    ASSERT_TRUE(stepped.ok()) << stepped.status();
    ASSERT_FALSE(stepped->has_value());
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
  proxy_.Heal();
  EXPECT_TRUE(Made(Step(connector)));
  // The second connection shows that both lead to one server.
  EXPECT_EQ(proxy_.stats().accepted, 2) << "it was another attempt";
}

// No call worked on the attempt meanwhile, so its long time says nothing about the server.
TEST_P(SilentServerTest, ExpiredAttemptBeginsAgain) {
  Connector connector = To(proxy_.url() + "?connect_timeout=100ms");
  const Stepped first = Step(connector, absl::Milliseconds(1));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_FALSE(first->has_value());
  absl::SleepFor(absl::Milliseconds(150));
  proxy_.Heal();
  EXPECT_TRUE(Made(Step(connector)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, SilentServerTest,
                         ::testing::Values(Arrival::kIgnore, Arrival::kHang), [](const auto& kind) {
                           return kind.param == Arrival::kHang ? "Hangs" : "Ignores";
                         });

// A name with several addresses.
Endpoint Somewhere(std::vector<int> ports) {
  return [ports = std::move(ports)](base::Instant deadline) {
    std::vector<Target> all;
    for (const int port : ports) {
      const Url url = UrlOf(absl::StrCat("redis://127.0.0.1:", port));
      all.push_back(MakeEndpoint(url)(deadline)->front());
    }
    return all;
  };
}

// A name server that does not answer.
absl::StatusOr<std::vector<Target>> SilentNameServer(base::Instant deadline) {
  base::Parker parker;
  parker.Arm();
  parker.ParkUntil(deadline);
  return absl::DeadlineExceededError("still looking up 'somewhere'");
}

TEST(EndpointTest, SaysWhyNoAddressWasFoundInTime) {
  Connector connector(UrlOf("redis://somewhere?connect_timeout=50ms"),
                      Handshake::Purpose::kCommands, nullptr, SilentNameServer);
  const Stepped early = connector.Step(In(absl::Milliseconds(1)));
  EXPECT_TRUE(early.ok() && !early->has_value()) << early.status();
  EXPECT_EQ(connector.Step(In(kAmpleTime)).status(),
            absl::UnavailableError("still looking up 'somewhere'"));
}

struct TwoAddressesTest : ConnectorTest {
  Connector To(std::vector<int> ports, const std::string& options = "") {
    return Connector(UrlOf("redis://somewhere" + options), Handshake::Purpose::kCommands, nullptr,
                     Somewhere(std::move(ports)));
  }
  const ReservedPort unused_;
};

TEST_F(TwoAddressesTest, NextIsTriedAfterRefusal) {
  Connector connector = To({unused_.number(), server_->port()});
  EXPECT_TRUE(Made(Step(connector)));
}

TEST_F(TwoAddressesTest, LastRefusalIsNamed) {
  Connector connector = To({proxy_.port(), unused_.number()});
  proxy_.SetArrival(Arrival::kRefuse);
  const Stepped stepped = Step(connector);
  EXPECT_THAT(stepped.status(),
              IsError(absl::StatusCode::kUnavailable,
                      AllOf(HasSubstr("redis://somewhere"),
                            HasSubstr(absl::StrCat("127.0.0.1:", unused_.number())))));
}

TEST_F(TwoAddressesTest, NextIsTriedAfterReplica) {
  const auto replica = RedisServer::Start({.replica_of = server_->port()});
  Connector connector = To({replica->port(), server_->port()});
  const Stepped stepped = Step(connector);
  ASSERT_TRUE(Made(stepped));
  EXPECT_EQ((*stepped)->target.address.text, absl::StrCat("127.0.0.1:", server_->port()));
}

TEST_F(TwoAddressesTest, SilentAddressLeavesTimeForNext) {
  proxy_.SetArrival(Arrival::kHang);
  Connector connector = To({proxy_.port(), server_->port()}, "?connect_timeout=400ms");
  Stepped stepped;
  do {
    stepped = Step(connector, absl::Milliseconds(5));
  } while (stepped.ok() && !stepped->has_value());
  EXPECT_TRUE(Made(stepped));
}

// Another connect() to the socket gets EAGAIN.
TEST_F(ConnectorTest, FullBacklogOfUnixSocketIsAwaited) {
  const auto server = RedisServer::Start({.config = {"tcp-backlog 1"}});
  server->Stop();
  std::deque<Connector> connectors;
  for (int i = 0; i < 4; ++i) {
    connectors.push_back(To(server->unix_url()));
    const Stepped stepped = Step(connectors.back(), absl::Milliseconds(50));
    ASSERT_TRUE(stepped.ok()) << stepped.status();
    ASSERT_FALSE(stepped->has_value());
  }
  server->Continue();
  EXPECT_TRUE(Made(Step(connectors.back())));
}

TEST_F(ConnectorTest, ConnectingSocketIsNotConnected) {
  proxy_.SetArrival(Arrival::kHang);
  const auto targets = Must(MakeEndpoint(UrlOf(proxy_.url()))(In(kAmpleTime)));
  const auto transport = *OpenTransport(targets.front());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(transport->Connect().kind, IoResult::Kind::kWantWrite);
  proxy_.Heal();
  EXPECT_TRUE(Await([&] { return transport->Connect().kind == IoResult::Kind::kDone; }));
  EXPECT_EQ(transport->Connect().kind, IoResult::Kind::kDone);
}

TEST(SeveralAddressesTest, TwoPrimariesAreRefusedButNotOne) {
  const auto one = RedisServer::Start();
  const auto other = RedisServer::Start();
  const auto step = [&](std::vector<int> ports) {
    return Connector(UrlOf(one->url()), Handshake::Purpose::kCommands, nullptr,
                     Somewhere(std::move(ports)))
        .Step(In(kAmpleTime))
        .status();
  };
  const absl::Status refused = step({one->port(), other->port()});
  EXPECT_THAT(refused,
              IsError(absl::StatusCode::kFailedPrecondition,
                      AllOf(HasSubstr("two primaries"), HasSubstr(absl::StrCat(other->port())))));
  EXPECT_TRUE(step({one->port(), one->port()}).ok());
  const int gone = other->port();
  other->Kill();
  EXPECT_TRUE(step({one->port(), gone}).ok());
  other->Restart();
  other->Do({"REPLICAOF", "127.0.0.1", absl::StrCat(one->port())});
  EXPECT_TRUE(step({one->port(), gone}).ok()) << "the other is a replica";
}

// To a client, a server that restarts is another one.
TEST(SeveralAddressesTest, RestartedServerIsNoSecondPrimary) {
  const auto one = support::RedisServer::Start();
  const auto other = support::RedisServer::Start();
  for (const bool silently : {false, true}) {
    TcpProxy before_one({.port = one->port()});
    int opened = 0;
    const auto open = [&](const Target& target) {
      if (++opened == 2) {
        silently ? before_one.Drop(Direction::kToClient) : before_one.ResetAll();
      }
      return OpenTransport(target);
    };
    Connector connector(UrlOf(one->url()), Handshake::Purpose::kCommands, open,
                        Somewhere({before_one.port(), other->port()}));
    const absl::Status status = connector.Step(In(kAmpleTime)).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("it restarted meanwhile"));
  }
}

// Finding a primary through sentinels, some of which are dead or wrong.

using support::FakeSentinel;
using support::SentinelGroup;

Url Through(const std::vector<std::string>& sentinels) {
  return UrlOf("redis-sentinel://" + absl::StrJoin(sentinels, ",") + "/m");
}

// The address that the endpoint finds, or its failure as text.
std::string Found(const Endpoint& endpoint) {
  const auto targets = endpoint(In(kAmpleTime));
  return targets.ok() ? targets->front().address.text : targets.status().ToString();
}
std::string Found(const Url& url) { return Found(MakeEndpoint(url)); }

std::string At(int port) { return absl::StrCat("127.0.0.1:", port); }

struct SentinelEndpointTest : ::testing::Test {
  const std::unique_ptr<RedisServer> primary_ = RedisServer::Start();
  const std::unique_ptr<RedisServer> replica_ =
      RedisServer::Start({.replica_of = primary_->port()});
  FakeSentinel honest_{[this] { return primary_->port(); }};
};

TEST_F(SentinelEndpointTest, AddressNamedByMostIsUsed) {
  const auto old = RedisServer::Start();  // it claims to be a primary, too
  FakeSentinel behind([&] { return old->port(); }, /*epoch=*/1);
  FakeSentinel second([this] { return primary_->port(); }, /*epoch=*/2);
  const auto endpoint =
      MakeEndpoint(Through({behind.address(), honest_.address(), second.address()}));
  Found(endpoint);  // the first call takes the first answer
  EXPECT_EQ(Found(endpoint), At(primary_->port()));
  // If the primary does not answer, the minority's address is not used either.
  primary_->Kill();
  EXPECT_THAT(Found(endpoint), AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("names")));
}

TEST_F(SentinelEndpointTest, NewerPromotionOutweighsMoreSentinels) {
  const auto old = RedisServer::Start();
  FakeSentinel behind([&] { return old->port(); }), behind_too([&] { return old->port(); });
  FakeSentinel newest([this] { return primary_->port(); }, /*epoch=*/2);
  const auto endpoint =
      MakeEndpoint(Through({behind.address(), behind_too.address(), newest.address()}));
  Found(endpoint);  // the first call takes the first answer
  EXPECT_EQ(Found(endpoint), At(primary_->port()));
}

TEST_F(SentinelEndpointTest, SaysWhyEachHasFailed) {
  const std::string unused = At(support::ReservedPort().number());
  FakeSentinel wrong([this] { return replica_->port(); });
  primary_->Kill();
  EXPECT_THAT(
      Found(Through({unused, wrong.address()})),
      AllOf(HasSubstr("UNAVAILABLE: cannot find the primary of redis-sentinel://"),
            HasSubstr(unused), HasSubstr("Connection refused"),
            HasSubstr(absl::StrCat("names ", At(replica_->port()), ", which is a replica"))));
}

TEST_F(SentinelEndpointTest, SaysThatNoneKnowsThePrimary) {
  FakeSentinel other([] { return 0; });
  EXPECT_THAT(Found(Through({other.address()})),
              AllOf(HasSubstr("FAILED_PRECONDITION"),
                    HasSubstr("knows no primary called 'm' (but another)")));
}

TEST_F(SentinelEndpointTest, SaysThatAServerIsNoSentinel) {
  EXPECT_THAT(Found(Through({At(primary_->port())})),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("is no sentinel")));
}

TEST(SentinelEndpointOfAGroupTest, LearnsOfFurtherSentinels) {
  const auto group = SentinelGroup::Start();
  const auto endpoint = MakeEndpoint(UrlOf(absl::StrCat(
      "redis-sentinel://127.0.0.1:", group->sentinel(1).port(), "/", SentinelGroup::kPrimary)));
  EXPECT_EQ(Found(endpoint), At(group->port(0)));
  group->sentinel(1).Kill();
  EXPECT_EQ(Found(endpoint), At(group->port(0)));
}

TEST(SentinelEndpointOfAGroupTest, SendsSentinelsTheirOwnPassword) {
  const auto group = SentinelGroup::Start(
      {.replicas = 0, .server = {.password = "one"}, .sentinel = {.password = "two"}});
  const auto with = [&](const std::string& options) {
    std::string url = group->url() + options;
    return Found(UrlOf(url.replace(url.find("//"), 2, "//:one@")));
  };
  EXPECT_EQ(with("?sentinel_password=two"), At(group->port(0)));
  EXPECT_THAT(with("?sentinel_password=wrong"), HasSubstr("PERMISSION_DENIED"));
  EXPECT_THAT(with(""),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("cannot find the primary")));
  // A wrong password for the server does not matter here: the server reports it to the client that
  // connects.
  EXPECT_EQ(Found(UrlOf(group->url() + "?sentinel_password=two")), At(group->port(0)));
}

// A port without a listener, in the kernel's range for clients: a socket may be connected to itself
// there.

TEST(SelfConnect, IsRefused) {
  int first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  int accepted = 0;
  bool met = false;
  // The kernel walks through the range, odd or even ports first.
  for (int i = 0; i < 60'000 && !met; ++i) {
    Target target;
    auto* address = reinterpret_cast<sockaddr_in*>(&target.address.storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(static_cast<uint16_t>(first + 11'000 + i % 2));
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    target.address.size = sizeof *address;
    auto transport = OpenTransport(target);
    ASSERT_TRUE(transport.ok()) << transport.status();
    IoResult result = (*transport)->Connect();
    while (result.blocked()) {
      (*transport)->Wait(result.wants(), -1, base::Now() + absl::Seconds(10));
      result = (*transport)->Connect();
    }
    met = result.kind == IoResult::Kind::kDone;
    accepted += met ? 1 : 0;
    EXPECT_TRUE(met || result.error == ECONNREFUSED);
  }
  EXPECT_EQ(accepted, 0);
}

}  // namespace
}  // namespace redlatch::redis
