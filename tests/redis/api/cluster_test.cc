// Locks on a cluster, as one client sees it; the conformance suite runs there too.
#include "src/redis/connect/needs.h"
#include "src/redis/wire/slot.h"
#include "tests/redis/api/cluster_tour.h"
#include "tests/support/authority.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

class ClusterTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { group_ = ClusterGroup::Start().release(); }
  static void TearDownTestSuite() { delete std::exchange(group_, nullptr); }

  static ClusterGroup* group_;
};

ClusterGroup* ClusterTest::group_ = nullptr;

TEST_F(ClusterTest, AForkedChildIsRefusedAndDestroysWhatItHas) {
  auto client = std::make_unique<Client>(Connect(group_->url()));
  auto lock = std::make_unique<SimpleLock>(*client, "forked");
  absl::StatusOr<Lease> lease = lock->Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  const int code = support::CodeOfFork([&] {
    const bool refused =
        lock->TryAcquire().status().code() == absl::StatusCode::kFailedPrecondition;
    lease = absl::CancelledError("");
    lock.reset();
    client.reset();
    return refused ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(lease->Release().ok());
}

TEST_F(ClusterTest, AnEndedClientLeavesNoKeys) {
  {
    const Client client = Connect(group_->url());
    for (int i = 0; i < 6; ++i) {
      SimpleLock lock(client, absl::StrCat("ends:", i),
                      {.replica_acks = 1, .ack_timeout = absl::Milliseconds(10)});
      EXPECT_EQ(lock.TryAcquire().status().code(), absl::StatusCode::kUnavailable);
    }
  }
  const auto marks = [&] {
    size_t count = 0;
    for (size_t i = 0; i < group_->servers(); ++i) {
      count += group_->server(i).Do({"KEYS", "redlatch:client:{*"}).elements.size();
    }
    return count;
  };
  EXPECT_TRUE(Await([&] { return marks() == 0; })) << marks();
}

TEST_F(ClusterTest, ErrorsSayWhatToDo) {
  const absl::Status single =
      Client::Connect(absl::StrCat("redis://127.0.0.1:", group_->server(0).port())).status();
  EXPECT_THAT(single,
              IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("redis-cluster://")));
  const auto standalone = RedisServer::Start();
  const absl::Status none =
      Client::Connect(absl::StrCat("redis-cluster://127.0.0.1:", standalone->port())).status();
  EXPECT_THAT(std::string(none.message()), HasSubstr("cluster support disabled")) << none;
}

// A user with the least rights that locks on a cluster need, as docs/operations.md says them, and
// with less.

constexpr char kRights[] =
    "on >secret ~* resetchannels &redlatch:* -@all "
    "+eval +evalsha +script +info +ping +time "
    "+spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub +cluster|slots +cluster|info +asking "
    "+get +mget +getrange +set +setrange +psetex +del +unlink +rename +exists +pexpire +pexpireat "
    "+pttl +hget +hset +hsetnx +hdel +hexists +hgetall +hkeys +hmget +hincrby "
    "+zadd +zrem +zremrangebyrank +zcard +zcount +zrange +zrangebyscore +zrank +zscore";

class ClusterUser : public ClusterTest {
 protected:
  void SetUp() override { SetUser(absl::StrCat("reset ", kRights)); }

  // At every node: no node tells another.
  void SetUser(const std::string& rules) {
    for (size_t i = 0; i < group_->servers(); ++i) SetUserAt(i, rules);
  }
  void SetUserAt(size_t server, const std::string& rules) {
    std::vector<std::string> command = absl::StrSplit("ACL SETUSER app " + rules, ' ');
    EXPECT_EQ(group_->server(server).Text(command), "OK") << rules;
  }
  static std::string Url() {
    std::string url = group_->url();
    return url.insert(url.find("//") + 2, "app:secret@");
  }
  // What is behind "ACL SETUSER app" in the message of a refusal.
  static std::string MendOf(const absl::Status& denied) {
    EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied) << denied;
    const std::string message(denied.message());
    constexpr std::string_view kBegin = "ACL SETUSER app ";
    const size_t begin = message.find(kBegin);
    EXPECT_NE(begin, std::string::npos) << message;
    if (begin == std::string::npos) return "";
    const size_t rules = begin + kBegin.size();
    return message.substr(rules, message.find(')', rules) - rules);
  }
};

TEST_F(ClusterUser, NeedsNoMoreThanTheDocumentsSay) { ClusterTour(*group_, Url()).Go(); }

TEST_F(ClusterUser, WithoutAnyOfTheCommandsIsToldWhichOneIsMissing) {
  for (const std::string& command : redis::NeededCommands(/*in_cluster=*/true)) {
    SCOPED_TRACE(command);
    SetUser("-" + command);
    const absl::Status denied = Client::Connect(Url()).status();
    EXPECT_THAT(denied, IsError(absl::StatusCode::kPermissionDenied, HasSubstr(command)));
    SetUser("+" + command);
    EXPECT_TRUE(Client::Connect(Url()).ok());
  }
}

TEST_F(ClusterUser, WhoIsDeniedTheChannelsIsToldHowToGrantThem) {
  SetUser("resetchannels");
  const std::string mend = MendOf(Client::Connect(Url()).status());
  EXPECT_EQ(mend, "&redlatch:*");
  SetUser(mend);
  ClusterTour(*group_, Url()).Go();
}

TEST_F(ClusterUser, WhoIsDeniedTheChannelsAtOneNodeIsToldByTheLocksThere) {
  SetUserAt(2, "resetchannels");
  const Client client = Connect(Url());
  EXPECT_TRUE(SimpleLock(client, group_->NameAt(0, "here")).TryAcquire().ok());
  SimpleLock denied(client, group_->NameAt(2, "there"));
  const base::Instant began = base::Now();
  const absl::Status status = denied.Acquire({.wait = absl::Seconds(10)}).status();
  EXPECT_LT(base::Now() - began, absl::Seconds(2)) << status;
  EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied, HasSubstr("&redlatch:*")));
  SetUserAt(2, "&redlatch:*");
  const absl::Status granted = denied.Acquire({.wait = absl::Seconds(10)}).status();
  EXPECT_TRUE(granted.ok()) << granted;
}

TEST_F(ClusterUser, WhoLosesTheChannelsWhileConnectedIsToldSoon) {
  const Client client = Connect(Url());
  const Client other = Connect(Url());
  const std::string name = group_->NameAt(1, "lost");
  const auto held = Must(SimpleLock(client, name).Acquire());
  SetUser("resetchannels");
  SimpleLock others(other, name);
  const base::Instant began = base::Now();
  const absl::Status status = others.Acquire({.wait = absl::Seconds(10)}).status();
  EXPECT_LT(base::Now() - began, absl::Seconds(2)) << status;
  EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied, HasSubstr("&redlatch:*")));
}

// Clusters whose nodes are reached in other ways than by the IPv4 addresses that they announce.

using support::Authority;

// Nodes that tell clients this name, whatever they call each other.
std::vector<std::string> Announcing(const std::string& host) {
  return {"cluster-announce-hostname " + host, "cluster-preferred-endpoint-type hostname"};
}

std::string WhyNot(const std::string& url) {
  const absl::Status status =
      Client::Connect(url, {.unreachable_after = absl::Seconds(1)}).status();
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(ClusterOverTls, IsUsedLikeAnyOther) {
  Authority authority;
  const auto group = ClusterGroup::Start(
      {.replicas = 1,
       .server = {.tcp = false,
                  .tls = support::ServerTls{.cert = authority.Certify(), .ca = authority.file()}}});
  ClusterTour(*group, group->tls_url()).Go();
  EXPECT_EQ(group->server(3).Text({"CLUSTER", "FAILOVER"}), "OK");
  EXPECT_TRUE(group->server(3).AwaitInfo("role", "master"));
  EXPECT_TRUE(group->AwaitWell());
  ClusterTour(*group, group->tls_url()).Go();
  const std::string url = group->tls_url();
  EXPECT_THAT(WhyNot(url.substr(0, url.find("&ca="))), HasSubstr("nobody whom this system trusts"));
}

TEST(ClusterOverTls, WhoForgetsToSaySoIsToldTo) {
  Authority authority;
  const auto group = ClusterGroup::Start(
      {.server = {.tcp = false,
                  .tls = support::ServerTls{.cert = authority.Certify(), .ca = authority.file()}}});
  const std::string url = group->tls_url();
  EXPECT_THAT(WhyNot(url.substr(0, url.find('?'))), HasSubstr("tls=on"));
}

TEST(ClusterOverTls, CertificatesAreForTheHostNamesThatNodesAnnounce) {
  Authority authority;
  const std::string cert = authority.Certify({.names = {"localhost"}});
  const auto group = ClusterGroup::Start(
      {.server = {.tls = support::ServerTls{.cert = cert, .ca = authority.file()},
                  .config = Announcing("localhost")}});
  ClusterTour(*group, absl::StrCat("redis-cluster://localhost:", group->server(0).tls_port(),
                                   "?tls=on&ca=", authority.file()))
      .Go();
  EXPECT_THAT(WhyNot(group->tls_url()), HasSubstr("is for localhost"));
}

TEST(ClusterByName, IsReachedWhereItsNodesAnnounceHostNames) {
  const auto group = ClusterGroup::Start({.server = {.config = Announcing("localhost")}});
  ClusterTour(*group, group->url()).Go();
}

TEST(ClusterOverIpv6, IsUsedLikeAnyOther) {
  if (!std::filesystem::exists("/proc/net/if_inet6")) GTEST_SKIP() << "this machine has no IPv6";
  const auto group = ClusterGroup::Start({.host = "::1", .server = {.ipv6 = true}});
  ASSERT_THAT(group->server(0).Text({"CLUSTER", "NODES"}), HasSubstr("::1"));
  ClusterTour(*group, group->url()).Go();
  // One that is asked at another address than it announces.
  ClusterTour(*group, absl::StrCat("redis-cluster://127.0.0.1:", group->server(1).port())).Go();
}

class ClusterBehindProxies : public ::testing::Test {
 protected:
  ClusterBehindProxies() {
    for (size_t i = 0; i < group_->servers(); ++i) {
      proxies_.push_back(
          std::make_unique<TcpProxy>(support::TcpProxyOptions{.port = group_->server(i).port()}));
    }
  }
  std::string Announced(size_t i) const {
    return absl::StrCat(kNowhere, ":", group_->server(i).port());
  }
  std::string Map() const {
    std::string map = "map=";
    for (size_t i = 0; i < proxies_.size(); ++i) {
      absl::StrAppend(&map, i == 0 ? "" : ",", Announced(i), "/127.0.0.1:", proxies_[i]->port());
    }
    return map;
  }

  static constexpr char kNowhere[] = "nowhere.invalid";
  const std::unique_ptr<ClusterGroup> group_ =
      ClusterGroup::Start({.server = {.config = Announcing(kNowhere)}});
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
};

TEST_F(ClusterBehindProxies, IsReachedByTheMap) {
  for (const std::string& first : {Announced(0), absl::StrCat("127.0.0.1:", proxies_[1]->port())}) {
    ClusterTour(*group_, absl::StrCat("redis-cluster://", first, "?", Map())).Go();
  }
  for (const auto& proxy : proxies_) {
    // Commands and messages, of four clients.
    EXPECT_GE(proxy->stats().accepted, 8);
  }
}

TEST_F(ClusterBehindProxies, IsUnreachableWithoutAMapAndTheErrorSaysWhereItWasLookedFor) {
  EXPECT_THAT(WhyNot(group_->url()), HasSubstr(kNowhere));
}

// The first that the URL names does not exist, does not answer, or is no node.
TEST(ClusterUrl, NodesThatAreOfNoUseDelayNobodyForLong) {
  const auto group = ClusterGroup::Start();
  TcpProxy silent({.port = group->server(0).port()});
  silent.SetArrival(Arrival::kIgnore);
  TcpProxy hanging({.port = group->server(0).port()});
  hanging.SetArrival(Arrival::kHang);
  const auto standalone = RedisServer::Start();
  for (const std::string& first :
       {std::string("nowhere.invalid:7000"), absl::StrCat("127.0.0.1:", silent.port()),
        absl::StrCat("127.0.0.1:", hanging.port()),
        absl::StrCat("127.0.0.1:", standalone->port())}) {
    SCOPED_TRACE(first);
    const base::Instant began = base::Now();
    ClusterTour(*group,
                absl::StrCat("redis-cluster://", first, ",127.0.0.1:", group->server(2).port()))
        .Go();
    EXPECT_LT(base::Now() - began, absl::Seconds(5));
  }
}

}  // namespace
}  // namespace redlatch
