// Two clients use every kind of lock on every primary of a cluster.
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/read_write_lock.h"
#include "redlatch/redisson/semaphore.h"
#include "src/redis/connect/handshake.h"
#include "tests/support/authority.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

class ClusterTour {
 public:
  ClusterTour(ClusterGroup& group, const std::string& url) : group_(group), url_(url) {}

  void Go() {
    const Client client = Connect(url_);
    const Client other = Connect(url_);
    // An open latch stays, so each tour needs a new one.
    static int tours = 0;
    const std::string prefix = absl::StrCat("tour", ++tours);
    for (size_t i = 0; i < group_.servers(); ++i) {
      if (group_.server(i).Info("role") != "master") continue;
      const std::string tag = absl::StrCat("{", group_.NameAt(i, prefix), "}");
      SCOPED_TRACE(tag);
      HandOver(client, other, tag + "simple");
      OthersAt(client, tag);
    }
  }

 private:
  // less than a heartbeat interval
  static constexpr absl::Duration kTourTimeout = absl::Seconds(8);

  // The waiter is told by a message.
  void HandOver(const Client& client, const Client& other, const std::string& name) {
    SimpleLock lock(client, name);
    SimpleLock others(other, name);
    auto lease = Must(lock.Acquire({.wait = kTourTimeout}));
    absl::StatusOr<Lease> taken;
    std::thread waiter([&] { taken = others.Acquire({.wait = kTourTimeout}); });
    EXPECT_TRUE(Await([&] { return lock.Inspect()->waiting == 1; }));
    EXPECT_EQ(lock.Inspect()->holders.at(0).process.pid, getpid());
    const absl::Status released = lease.Release();
    EXPECT_TRUE(released.ok()) << released;
    waiter.join();
    EXPECT_TRUE(taken.ok()) << taken.status();
  }
  static void OthersAt(const Client& client, const std::string& tag) {
    ReentrantReadWriteLock read_write(client, tag + "read_write");
    EXPECT_TRUE(read_write.AcquireRead({.wait = kTourTimeout}).ok());
    EXPECT_TRUE(read_write.AcquireWrite({.wait = kTourTimeout}).ok());
    EXPECT_TRUE(Semaphore(client, tag + "semaphore", 2).Acquire(2, {.wait = kTourTimeout}).ok());
    CountDownLatch latch(client, tag + "latch", 1);
    EXPECT_TRUE(latch.CountDown().ok());
    EXPECT_TRUE(latch.Wait({.wait = kTourTimeout}).ok());
  }

  ClusterGroup& group_;
  const std::string url_;
};

// Locks on a cluster, as one client sees them. The conformance suite runs there, too.

struct ClusterTest : ::testing::Test {
  static void SetUpTestSuite() { group_ = ClusterGroup::Start().release(); }
  static void TearDownTestSuite() { delete std::exchange(group_, nullptr); }

  static ClusterGroup* group_;
};

ClusterGroup* ClusterTest::group_ = nullptr;

TEST_F(ClusterTest, EndedClientLeavesNoKeys) {
  {
    const Client client = Connect(group_->url());
    for (int i = 0; i < 6; ++i) {
      SimpleLock lock(client, absl::StrCat("ends:", i),
                      {.acks = {.replicas = 1, .timeout = absl::Milliseconds(10)}});
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

// An acquire may end while its thread subscribes.
TEST_F(ClusterTest, NoChannelOfRedissonIsKeptAfterContention) {
  const Client clients[] = {Connect(group_->url()), Connect(group_->url()), Connect(group_->url())};
  ASSERT_TRUE(*redisson::Semaphore(clients[0], "c").TrySetPermits(2));
  Crew().Start(6, [&](int i) {
    const Client& client = clients[i / 2];
    redisson::FairLock fair(client, "a");
    redisson::ReadWriteLock both(client, "b");
    redisson::Semaphore slots(client, "c");
    for (int round = 0; round < 100; ++round) {
      const AcquireOptions options{.wait = absl::Microseconds((round * 37 + i * 211) % 2000)};
      (void)fair.Acquire(options);
      (void)both.AcquireWrite(options);
      (void)both.AcquireRead(options);
      (void)slots.Acquire(1 + round % 2, options);
    }
  });
  for (size_t i = 0; i < group_->servers(); ++i) {
    const auto kept = [&] {
      return group_->server(i).Command({"PUBSUB", "SHARDCHANNELS", "redisson_*"}).elements;
    };
    EXPECT_TRUE(Await([&] { return kept().empty(); })) << kept().at(0).text;
  }
}

TEST_F(ClusterTest, ErrorsSayHowToFixThem) {
  const absl::Status single =
      Client::Connect(absl::StrCat("redis://127.0.0.1:", group_->server(0).port())).status();
  EXPECT_THAT(single,
              IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("redis-cluster://")));
  const auto standalone = RedisServer::Start();
  const absl::Status none =
      Client::Connect(absl::StrCat("redis-cluster://127.0.0.1:", standalone->port())).status();
  EXPECT_THAT(std::string(none.message()), HasSubstr("cluster support disabled")) << none;
}

// A user with the least permissions that docs/operations.md lists for a cluster, and with fewer.

constexpr char kRights[] =
    "on >secret ~* resetchannels &redlatch:* -@all "
    "+eval +evalsha +script +info +ping +time "
    "+spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub +cluster|slots +cluster|info +asking "
    "+get +mget +getrange +set +setrange +psetex +del +unlink +rename +exists +pexpire +pexpireat "
    "+pttl +hget +hset +hsetnx +hdel +hexists +hgetall +hkeys +hmget +hincrby "
    "+zadd +zrem +zremrangebyrank +zcard +zcount +zrange +zrangebyscore +zrank +zscore";

struct ClusterUser : ClusterTest {
  void SetUp() override { SetUser(absl::StrCat("reset ", kRights)); }

  // At every node, since nodes do not share users.
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
  // The text after "ACL SETUSER app" in the message of a refusal.
  static std::string RuleIn(const absl::Status& denied) {
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

TEST_F(ClusterUser, NeedsOnlyDocumentedPermissions) { ClusterTour(*group_, Url()).Go(); }

TEST_F(ClusterUser, ErrorNamesMissingCommand) {
  for (const std::string& command : redis::NeededCommands(/*in_cluster=*/true)) {
    SCOPED_TRACE(command);
    SetUser("-" + command);
    const absl::Status denied = Client::Connect(Url()).status();
    EXPECT_THAT(denied, IsError(absl::StatusCode::kPermissionDenied, HasSubstr(command)));
    SetUser("+" + command);
    EXPECT_TRUE(Client::Connect(Url()).ok());
  }
}

TEST_F(ClusterUser, ErrorSaysHowToGrantChannels) {
  SetUser("resetchannels");
  const std::string rule = RuleIn(Client::Connect(Url()).status());
  EXPECT_EQ(rule, "&redlatch:*");
  SetUser(rule);
  ClusterTour(*group_, Url()).Go();
}

TEST_F(ClusterUser, LocksReportDeniedChannelsOfOneNode) {
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

TEST_F(ClusterUser, LossOfChannelsIsReportedSoon) {
  const Client client = Connect(Url());
  const Client other = Connect(Url());
  const std::string name = group_->NameAt(1, "lost");
  const auto held = Must(SimpleLock(client, name).Acquire());
  SetUser("resetchannels");
  const base::Instant began = base::Now();
  const absl::Status status = SimpleLock(other, name).Acquire({.wait = absl::Seconds(10)}).status();
  EXPECT_LT(base::Now() - began, absl::Seconds(2)) << status;
  EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied, HasSubstr("&redlatch:*")));
}

// A client learns which node runs a script only from its reply. If the script named the old
// primary's run, the new one would grant at once, since it has a copy of the old primary's key.
TEST(ClusterInAQuorum, PromotedReplicaKeepsTheRestartDelay) {
  const auto group = ClusterGroup::Start({.replicas = 1});
  const std::string name = group->NameAt(0, "orders");
  const Client client = Connect("redlock:" + group->url() + "?restart_delay=3s");
  RedLock lock(client, name, {.lease = absl::Seconds(1)});
  EXPECT_TRUE(Must(lock.Acquire({.wait = absl::Seconds(20)})).Release().ok());
  RedisServer& replica = group->server(3);
  EXPECT_EQ(replica.Text({"CLUSTER", "FAILOVER"}), "OK");
  ASSERT_TRUE(replica.AwaitInfo("role", "master"));
  EXPECT_FALSE(lock.TryAcquire().ok());
  EXPECT_TRUE(lock.Acquire({.wait = absl::Seconds(20)}).ok());
}

// Clusters whose nodes are not reached by the IPv4 addresses that they announce.

using support::Authority;

// Nodes that announce this name to clients.
std::vector<std::string> Announcing(const std::string& host) {
  return {"cluster-announce-hostname " + host, "cluster-preferred-endpoint-type hostname"};
}

std::string WhyNot(const std::string& url) {
  const absl::Status status =
      Client::Connect(url, {.unreachable_after = absl::Seconds(1)}).status();
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(ClusterOverTls, WorksLikeAnyOther) {
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
  EXPECT_THAT(WhyNot(url.substr(0, url.find("&ca="))),
              HasSubstr("which this system does not trust"));
  EXPECT_THAT(WhyNot(url.substr(0, url.find('?'))), HasSubstr("tls=on"));
}

TEST(ClusterOverTls, ChecksCertificatesOfAnnouncedHosts) {
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

TEST(ClusterOverIpv6, WorksLikeAnyOther) {
  if (!std::filesystem::exists("/proc/net/if_inet6")) GTEST_SKIP() << "this machine has no IPv6";
  const auto group = ClusterGroup::Start({.host = "::1", .server = {.ipv6 = true}});
  ASSERT_THAT(group->server(0).Text({"CLUSTER", "NODES"}), HasSubstr("::1"));
  ClusterTour(*group, group->url()).Go();
  // A node that is reached at another address than it announces.
  ClusterTour(*group, absl::StrCat("redis-cluster://127.0.0.1:", group->server(1).port())).Go();
}

struct ClusterBehindProxies : ::testing::Test {
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

TEST_F(ClusterBehindProxies, IsReachedThroughMap) {
  for (const std::string& first : {Announced(0), absl::StrCat("127.0.0.1:", proxies_[1]->port())}) {
    ClusterTour(*group_, absl::StrCat("redis-cluster://", first, "?", Map())).Go();
  }
  for (const auto& proxy : proxies_) {
    EXPECT_GE(proxy->stats().accepted, 4);  // of four clients
  }
}

TEST_F(ClusterBehindProxies, ErrorWithoutMapNamesAddresses) {
  EXPECT_THAT(WhyNot(group_->url()), HasSubstr(kNowhere));
}

// The first node of the URL does not exist, does not answer, or is not a node.
TEST(ClusterUrl, UselessNodesDelayConnectOnlyBriefly) {
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

// What a cluster costs each client: one thread for all nodes, and two sockets per used primary.

constexpr absl::Duration kCostTimeout = absl::Seconds(8);  // less than a heartbeat interval
constexpr char kClientName[] = "measured";

int Sockets() {
  int sockets = 0;
  std::error_code gone;  // one is the descriptor that reads the directory
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    if (read_symlink(entry.path(), gone).string().starts_with("socket:")) ++sockets;
  }
  return sockets;
}

// A process with nothing but one client, which waits for each lock in turn. It reports how many
// threads and sockets it has more than at the start.
REDLATCH_CHILD(MeasuredClient) {
  const int threads = support::ThreadCount();
  const int sockets = Sockets();
  const Client client = Connect(args.at(0));
  for (size_t i = 1; i < args.size(); ++i) {
    auto lease = Must(SimpleLock(client, args[i]).Acquire({.wait = kCostTimeout}));
    EXPECT_TRUE(lease.Release().ok());
  }
  // The connection that asks for the slot map is closed again.
  const int most = sockets + static_cast<int>(args.size() - 1);
  Await([&] { return Sockets() <= most; }, absl::Seconds(2));
  parent.WriteLine(absl::StrCat(support::ThreadCount() - threads, " ", Sockets() - sockets));
  parent.ReadLine();
  return 0;
}

struct Cost {
  int threads = 0;
  int sockets = 0;
  std::vector<size_t> connections;  // at each server
};

size_t ConnectionsAt(RedisServer& server) {
  const std::vector<std::string> clients =
      absl::StrSplit(server.Text({"CLIENT", "LIST"}), absl::StrCat(" name=", kClientName, " "));
  return clients.size() - 1;
}

Cost CostOf(ClusterGroup& group) {
  const Client holder = Connect(group.url());
  std::vector<std::string> args = {absl::StrCat(group.url(), "?name=", kClientName)};
  std::vector<std::unique_ptr<SimpleLock>> locks;
  std::vector<Lease> leases;
  for (size_t i = 0; i < group.servers(); ++i) {
    args.push_back(group.NameAt(i, "cost"));
    locks.push_back(std::make_unique<SimpleLock>(holder, args.back()));
    leases.push_back(*locks.back()->Acquire({.wait = kCostTimeout}));
  }
  const auto child = support::SpawnChild("MeasuredClient", args);
  for (size_t i = 0; i < locks.size(); ++i) {
    EXPECT_TRUE(Await([&] { return locks[i]->Inspect()->waiting == 1; }));
    EXPECT_TRUE(leases[i].Release().ok());
  }
  Cost cost;
  std::istringstream words(child->pipe().ReadLine(2 * kCostTimeout).value_or(""));
  words >> cost.threads >> cost.sockets;
  EXPECT_TRUE(words) << "it does not end";
  for (size_t i = 0; i < group.servers(); ++i) {
    cost.connections.push_back(ConnectionsAt(group.server(i)));
  }
  child->pipe().WriteLine("end");
  const auto status = child->WaitFor(kCostTimeout);
  EXPECT_TRUE(status && status->success());
  std::printf("%zu primaries: %d threads, %d sockets\n", group.servers(), cost.threads,
              cost.sockets);
  return cost;
}

TEST(ClusterCost, IsOneSocketPerUsedPrimaryAndNoThread) {
  const auto three = ClusterGroup::Start();
  const auto one = ClusterGroup::Start({.primaries = 1});
  const Cost cost = CostOf(*three);
  EXPECT_EQ(cost.sockets, 3);
  EXPECT_THAT(cost.connections, Each(1));
  EXPECT_EQ(cost.threads, CostOf(*one).threads);
}

}  // namespace
}  // namespace redlatch
