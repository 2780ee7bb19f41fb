// Reasons why servers refuse all commands for a while, as in a failover.
#ifndef REDLATCH_TESTS_SUPPORT_REFUSALS_H_
#define REDLATCH_TESTS_SUPPORT_REFUSALS_H_

#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/redis/wire/slot.h"
#include "tests/support/await.h"
#include "tests/support/cluster_group.h"
#include "tests/support/fake_sentinel.h"
#include "tests/support/quorum_group.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support {

struct Refusal {
  std::string name;
  std::function<void(RedisServer&)> begin;
  std::function<void(RedisServer&)> end;
};

inline std::vector<Refusal> Refusals() {
  const auto set = [](const std::string& setting, const std::string& value) {
    return [=](RedisServer& server) { server.Do({"CONFIG", "SET", setting, value}); };
  };
  const auto fails_to_save = [](RedisServer& server) {
    const std::string in_the_way = server.directory() + "/dump.rdb";
    mkdir(in_the_way.c_str(), 0700);
    std::ofstream(in_the_way + "/file") << "so that it cannot be replaced";
    server.Do({"CONFIG", "SET", "save", "3600 1"});
    EXPECT_TRUE(Await([&] {
      server.Command({"BGSAVE"});
      return server.Info("rdb_last_bgsave_status") == "err";
    }));
  };
  const auto loads = [](RedisServer& server) {
    server.Do({"DEBUG", "POPULATE", "1000", "key", "2000"});
    server.Do({"CONFIG", "SET", "loading-process-events-interval-bytes", "1024"});
    server.Do({"CONFIG", "SET", "key-load-delay", "1000"});
    static std::vector<RawConnection> reloading;
    reloading.push_back(RawConnection::ToSocket(server.socket_path()));
    EXPECT_TRUE(reloading.back().Send({"DEBUG", "RELOAD"}));
    EXPECT_TRUE(Await([&] {
      return server.Text({"GET", "k"}).find("LOADING") != std::string::npos;
    }));
  };
  return {
      {"Refused", [](RedisServer& server) { server.Kill(); },
       [](RedisServer& server) { server.Restart(); }},
      {"Replica",
       [](RedisServer& server) {
         server.Do({"REPLICAOF", "127.0.0.1", "1"});
       },
       [](RedisServer& server) {
         server.Do({"REPLICAOF", "NO", "ONE"});
       }},
      {"Maxclients", set("maxclients", "1"), set("maxclients", "10000")},
      {"Misconf", fails_to_save, set("stop-writes-on-bgsave-error", "no")},
      {"Loading", loads, [](RedisServer&) {}},  // ends by itself, after a second or more
  };
}

// A server group that does not serve names with this hash tag, until Serve().
class UnservedGroup {
 public:
  static constexpr char kTag[] = "{tag}";

  virtual ~UnservedGroup() = default;
  virtual std::string url() const = 0;
  virtual void Serve() = 0;
};

struct UnservedGroupCase {
  std::string name;
  std::function<std::unique_ptr<UnservedGroup>()> start;
};

// One server, as a URL of its own, behind a sentinel, or as a whole cluster.
class UnservedServer : public UnservedGroup {
 public:
  enum class Way { kItself, kSentinel, kCluster };
  UnservedServer(Refusal refusal, Way way)
      : refusal_(std::move(refusal)),
        way_(way),
        server_(way == Way::kCluster ? StartClusterOfOne() : RedisServer::Start()) {
    refusal_.begin(*server_);
  }
  std::string url() const override {
    if (way_ == Way::kSentinel) return absl::StrCat("redis-sentinel://", sentinel_.address(), "/s");
    if (way_ == Way::kCluster) return absl::StrCat("redis-cluster://127.0.0.1:", server_->port());
    return server_->url();
  }
  void Serve() override { refusal_.end(*server_); }

 private:
  const Refusal refusal_;
  const Way way_;
  std::unique_ptr<RedisServer> server_;
  FakeSentinel sentinel_{[port = server_->port()] { return port; }};
};

// Two of three servers refuse.
class UnservedQuorum : public UnservedGroup {
 public:
  explicit UnservedQuorum(Refusal refusal) : refusal_(std::move(refusal)) {
    for (const size_t i : {0, 1}) refusal_.begin(servers_[i]);
  }
  std::string url() const override { return servers_.url(); }
  void Serve() override {
    for (const size_t i : {0, 1}) refusal_.end(servers_[i]);
  }

 private:
  const Refusal refusal_;
  QuorumGroup servers_{3};
};

// The sentinel does not answer yet, or it names a server that has died.
class UnservedSentinel : public UnservedGroup {
 public:
  explicit UnservedSentinel(bool answers) {
    old_->Kill();
    if (!answers) proxy_.SetArrival(Arrival::kRefuse);
  }
  std::string url() const override {
    return absl::StrCat("redis-sentinel://127.0.0.1:", proxy_.port(), "/s");
  }
  void Serve() override {
    named_ = next_->port();
    proxy_.SetArrival(Arrival::kServe);
  }

 private:
  std::unique_ptr<RedisServer> old_ = RedisServer::Start();
  std::unique_ptr<RedisServer> next_ = RedisServer::Start();
  std::atomic<int> named_ = old_->port();
  FakeSentinel sentinel_{[this] { return named_.load(); }};
  TcpProxy proxy_{
      {.port = std::stoi(sentinel_.address().substr(std::string("127.0.0.1:").size()))}};
};

// A node that has no slots yet.
class UnservedSlots : public UnservedGroup {
 public:
  UnservedSlots() { Slots("DELSLOTSRANGE"); }
  std::string url() const override {
    return absl::StrCat("redis-cluster://127.0.0.1:", server_->port());
  }
  void Serve() override { Slots("ADDSLOTSRANGE"); }

 private:
  void Slots(const char* verb) {
    server_->Do({"CLUSTER", verb, "0", std::to_string(redis::kSlots - 1)});
  }
  std::unique_ptr<RedisServer> server_ = StartClusterOfOne();
};

// The primary of the slot is down, and has a replica or none.
class UnservedPrimary : public UnservedGroup {
 public:
  explicit UnservedPrimary(size_t replicas)
      : cluster_(ClusterGroup::Start({.replicas = replicas})),
        primary_(*cluster_->OwnerOf(redis::SlotOf(kTag))) {
    cluster_->server(primary_).Kill();
  }
  std::string url() const override { return cluster_->url(); }
  void Serve() override {
    if (cluster_->servers() == 3) cluster_->server(primary_).Restart();
  }

 private:
  std::unique_ptr<ClusterGroup> cluster_;
  const size_t primary_;
};

inline std::vector<UnservedGroupCase> UnservedGroups() {
  using Way = UnservedServer::Way;
  std::vector<UnservedGroupCase> all;
  const auto add = [&all](const std::string& name, const auto& make) {
    all.push_back({name, make});
  };
  for (const Refusal& each : Refusals()) {
    const auto server = [&](Way way) {
      return [each, way] { return std::make_unique<UnservedServer>(each, way); };
    };
    add("Server" + each.name, server(Way::kItself));
    add("Sentinel" + each.name, server(Way::kSentinel));
    if (each.name != "Replica") add("Cluster" + each.name, server(Way::kCluster));
    add("Quorum" + each.name, [each] { return std::make_unique<UnservedQuorum>(each); });
  }
  add("SentinelDown", [] { return std::make_unique<UnservedSentinel>(/*answers=*/false); });
  add("SentinelNamesDeadServer",
      [] { return std::make_unique<UnservedSentinel>(/*answers=*/true); });
  add("ClusterWithoutSlots", [] { return std::make_unique<UnservedSlots>(); });
  add("ClusterPrimaryDown", [] { return std::make_unique<UnservedPrimary>(0); });
  add("ClusterFailover", [] { return std::make_unique<UnservedPrimary>(1); });
  return all;
}

inline std::string NameOfUnserved(const ::testing::TestParamInfo<UnservedGroupCase>& its) {
  return its.param.name;
}

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_REFUSALS_H_
