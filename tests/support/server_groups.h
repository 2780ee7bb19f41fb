// Real clusters, servers behind sentinels, and quorums.
#ifndef REDLATCH_TESTS_SUPPORT_SERVER_GROUPS_H_
#define REDLATCH_TESTS_SUPPORT_SERVER_GROUPS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "src/redis/wire/codec.h"
#include "tests/support/redis_server.h"
#include "tests/support/resources.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support {

struct ClusterGroupOptions {
  size_t primaries = 3;
  size_t replicas = 0;  // of each primary
  // How long a node must be silent to count as down.
  absl::Duration node_timeout = absl::Milliseconds(1000);
  // The host by which nodes and clients know the nodes; "::1" needs `server.ipv6`.
  std::string host = "127.0.0.1";
  // The options of each server. With tls, the nodes use only TLS among themselves.
  RedisServerOptions server = {};
};

// One server that is a whole cluster. It is ready at once.
std::unique_ptr<RedisServer> StartClusterOfOne(RedisServerOptions options = {});

// A real Redis Cluster on loopback. The first servers are the primaries; the slots are spread
// evenly over them.
class ClusterGroup {
 public:
  // Returns when every node knows all others, all slots are served, and all replicas are in sync.
  static std::unique_ptr<ClusterGroup> Start(ClusterGroupOptions options = {});
  ~ClusterGroup();

  // "redis-cluster://127.0.0.1:p1,127.0.0.1:p2", of all nodes.
  std::string url() const;
  // The same with the ports for TLS, and "?tls=on&ca=/path".
  std::string tls_url() const;

  size_t servers() const { return servers_.size(); }
  RedisServer& server(size_t i) { return *servers_[i]; }

  // The server that says it serves the slot.
  std::optional<size_t> OwnerOf(redis::Slot slot);
  // A name with that prefix whose slot is at that server, a primary.
  std::string NameAt(size_t server, std::string_view prefix);
  // Runs a command at the server that has the key.
  redis::Reply CommandAt(std::string_view key, const std::vector<std::string>& command);
  // Moves a slot with its keys in three steps, as `redis-cli --cluster reshard` does. Clients are
  // redirected meanwhile. BeginMove() waits until all nodes know the same epoch: a node that takes
  // a slot without knowing the latest epoch loses the slot again, with its keys.
  void BeginMove(redis::Slot slot, size_t to);
  void MoveKeys(redis::Slot slot, size_t from, size_t to);
  void FinishMove(redis::Slot slot, size_t to);
  // Moves many slots at the same time. Returns how many of them were at another server.
  size_t MoveRange(redis::Slot first, redis::Slot last, size_t to);

  // True if all nodes know the same epoch, and so the last move.
  bool OfOneEpoch();
  bool AwaitWell();

 private:
  explicit ClusterGroup(ClusterGroupOptions options);
  bool Well();
  std::string UrlOf(int (RedisServer::*port)() const) const;
  bool IsPrimary(size_t server);
  // The slots of the range that this server claims to serve.
  std::vector<redis::Slot> Claimed(size_t server, redis::Slot first, redis::Slot last);
  std::optional<size_t> Claimant(redis::Slot slot);
  std::string IdOf(size_t server);
  // The port at which other nodes reach it.
  std::string PortOf(size_t server) const;
  void MoveSlots(const std::vector<redis::Slot>& slots, size_t from, size_t to);

  const ClusterGroupOptions options_;
  std::deque<ReservedPort> bus_ports_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

struct SentinelGroupOptions {
  int replicas = 2;
  // Clients, replicas and sentinels reach each server through its own proxy, which can cut it off.
  // The server's Unix socket has no proxy.
  bool proxied = false;
  RedisServerOptions server = {};    // of each server; if it has tls, the sentinels use TLS, too
  RedisServerOptions sentinel = {};  // of each sentinel
};

// A primary, its replicas, and real sentinels that watch them. The sentinels exchange messages a
// few times a second, instead of every few seconds.
class SentinelGroup {
 public:
  static constexpr char kPrimary[] = "orders";  // the primary's name at the sentinels

  // Returns when each sentinel knows all others and all replicas, and the replicas have all data.
  static std::unique_ptr<SentinelGroup> Start(SentinelGroupOptions options = {});
  ~SentinelGroup();

  // "redis-sentinel://127.0.0.1:p1,127.0.0.1:p2/orders", of all sentinels.
  std::string url() const;

  size_t servers() const { return servers_.size(); }
  RedisServer& server(size_t i) { return *servers_[i]; }
  TcpProxy& proxy(size_t i) { return *proxies_[i]; }
  RedisServer& sentinel(size_t i) { return *sentinels_[i]; }
  // The port at which clients reach a server: its own, or its proxy's.
  int port(size_t i) const;

  // The server that most sentinels name as the primary, if the server agrees.
  std::optional<size_t> Primary();
  // The same, if it is not `old`. It does not ask `old`, which may hang.
  std::optional<size_t> PrimaryOtherThan(size_t old);
  // Waits for a primary that is not `old`. Ends the process if there is none in time.
  size_t AwaitPrimaryOtherThan(size_t old);
  // Waits until all is well: there is one primary, all other servers are its replicas and have all
  // data, and the sentinels know it.
  bool AwaitWell();

 private:
  explicit SentinelGroup(SentinelGroupOptions options);
  std::optional<size_t> NamedBy(RedisServer& sentinel);
  std::optional<size_t> NamedByMost();
  bool SaysThatItIsOne(size_t server);
  bool Well();

  const SentinelGroupOptions options_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
  std::vector<std::unique_ptr<RedisServer>> sentinels_;
};

// "redlock:redis://...,redis://..."; each server's URL has these options.
template <class Servers>
std::string QuorumUrl(const Servers& servers, const std::string& options) {
  std::string text;
  for (const auto& server : servers) {
    absl::StrAppend(&text, text.empty() ? "redlock:" : ",", server->url(),
                    options.empty() ? "" : "?", options);
  }
  return text;
}

// Independent servers for one test.
class QuorumGroup {
 public:
  explicit QuorumGroup(size_t size = 5, const RedisServerOptions& options = {}) {
    for (size_t i = 0; i < size; ++i) servers_.push_back(RedisServer::Start(options));
  }

  size_t size() const { return servers_.size(); }
  RedisServer& operator[](size_t i) { return *servers_[i]; }

  std::string url(const std::string& options = {}) const { return QuorumUrl(servers_, options); }

  // How many servers have the key.
  size_t Having(const std::string& key) {
    size_t count = 0;
    for (const auto& server : servers_) {
      count += server->Integer({"EXISTS", key}) > 0 ? 1U : 0U;
    }
    return count;
  }

 private:
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_SERVER_GROUPS_H_
