// Clusters whose nodes are reached in other ways than by the IPv4 addresses that they announce.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "src/base/clock.h"
#include "tests/redis/api/cluster_tour.h"
#include "tests/support/authority.h"
#include "tests/support/cluster_group.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch {
namespace {

using support::Authority;
using support::ClusterGroup;
using support::TcpProxy;
using ::testing::HasSubstr;

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
  silent.SetArrival(support::Arrival::kIgnore);
  TcpProxy hanging({.port = group->server(0).port()});
  hanging.SetArrival(support::Arrival::kHang);
  const auto standalone = support::RedisServer::Start();
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
