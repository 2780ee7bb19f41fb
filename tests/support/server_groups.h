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
  size_t replicas = 0;  // of each
  // How long a node must be silent to count as down.
  absl::Duration node_timeout = absl::Milliseconds(1000);
  // By which nodes know each other, and clients them; "::1" wants `server.ipv6`.
  std::string host = "127.0.0.1";
  // Each of them. With tls they speak nothing else among themselves.
  RedisServerOptions server = {};
};

// One server that is a whole cluster: ready at once.
std::unique_ptr<RedisServer> StartClusterOfOne(RedisServerOptions options = {});

// A real Redis Cluster on loopback. Its slots are spread evenly over the primaries, which are the
// first of the servers.
class ClusterGroup {
 public:
  // Returns when every node sees all others, all slots served, and all replicas in step.
  static std::unique_ptr<ClusterGroup> Start(ClusterGroupOptions options = {});
  ~ClusterGroup();

  // "redis-cluster://127.0.0.1:p1,127.0.0.1:p2", of all nodes.
  std::string url() const;
  // The same with the ports for TLS, and "?tls=on&ca=/path".
  std::string tls_url() const;

  size_t servers() const { return servers_.size(); }
  RedisServer& server(size_t i) { return *servers_[i]; }

  // Which server serves the slot, as it says itself.
  std::optional<size_t> OwnerOf(redis::Slot slot);
  // A name, beginning so, that lies at that server, a primary.
  std::string NameAt(size_t server, std::string_view prefix);
  // Runs a command at the server that has the key.
  redis::Reply CommandAt(std::string_view key, const std::vector<std::string>& command);
  // Moves a slot with its keys, as `redis-cli --cluster reshard` does: in steps, during each of
  // which clients are redirected. Waits before until all nodes are of one epoch: a node that takes
  // a slot without knowing the latest loses it again, and the keys with it.
  void BeginMove(redis::Slot slot, size_t to);
  void MoveKeys(redis::Slot slot, size_t from, size_t to);
  void FinishMove(redis::Slot slot, size_t to);
  // The same with many slots at a time; how many of them were elsewhere before.
  size_t MoveRange(redis::Slot first, redis::Slot last, size_t to);

  // All nodes know of the last move.
  bool OfOneEpoch();
  bool AwaitWell(absl::Duration patience = absl::Seconds(30));

 private:
  explicit ClusterGroup(ClusterGroupOptions options);
  bool Well();
  std::string UrlOf(int (RedisServer::*port)() const) const;
  bool IsPrimary(size_t server);
  // The slots of the range that this server says it serves.
  std::vector<redis::Slot> Claimed(size_t server, redis::Slot first, redis::Slot last);
  std::optional<size_t> Claimant(redis::Slot slot);
  std::string IdOf(size_t server);
  // Where another node reaches it.
  std::string PortOf(size_t server) const;
  void MoveSlots(const std::vector<redis::Slot>& slots, size_t from, size_t to);

  const ClusterGroupOptions options_;
  std::deque<ReservedPort> bus_ports_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

struct SentinelGroupOptions {
  int sentinels = 3;
  int replicas = 2;
  // How long a primary must be silent to count as down.
  absl::Duration down_after = absl::Milliseconds(500);
  // Everybody reaches a server through a proxy of its own, by which it can be cut off. Its Unix
  // socket is left.
  bool proxied = false;
  RedisServerOptions server = {};    // each of them; tls: sentinels too
  RedisServerOptions sentinel = {};  // each of them
};

// A primary, its replicas, and real sentinels that watch over them: what they hear of each other
// every few seconds, here they hear a few times a second.
class SentinelGroup {
 public:
  static constexpr char kPrimary[] = "orders";  // what the sentinels call it

  // Returns when each sentinel knows all others and all replicas, and these have all data.
  static std::unique_ptr<SentinelGroup> Start(SentinelGroupOptions options = {});
  ~SentinelGroup();

  // "redis-sentinel://127.0.0.1:p1,127.0.0.1:p2/orders", of all sentinels.
  std::string url() const;

  size_t servers() const { return servers_.size(); }
  RedisServer& server(size_t i) { return *servers_[i]; }
  TcpProxy& proxy(size_t i) { return *proxies_[i]; }
  RedisServer& sentinel(size_t i) { return *sentinels_[i]; }
  // Where clients reach a server: its own port, or its proxy's.
  int port(size_t i) const;

  // Which server most sentinels take for the primary, and that says so itself.
  std::optional<size_t> Primary();
  // The same where it is not `old`, which is asked nothing, as it may hang.
  std::optional<size_t> PrimaryOtherThan(size_t old);
  // Waits for one that is not `old`; ends the process where there never is one.
  size_t AwaitPrimaryOtherThan(size_t old, absl::Duration patience = absl::Seconds(30));
  // Waits until all servers are well: one primary, each other its replica, with all data, and the
  // sentinels know it.
  bool AwaitWell(absl::Duration patience = absl::Seconds(30));

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

// "redlock:redis://...,redis://...", each with these options.
template <class Servers>
std::string QuorumUrl(const Servers& servers, const std::string& options) {
  std::string text;
  for (const auto& server : servers) {
    absl::StrAppend(&text, text.empty() ? "redlock:" : ",", server->url(),
                    options.empty() ? "" : "?", options);
  }
  return text;
}

// Independent servers of a test's own.
class QuorumGroup {
 public:
  explicit QuorumGroup(size_t size = 5, const RedisServerOptions& options = {}) {
    for (size_t i = 0; i < size; ++i) servers_.push_back(RedisServer::Start(options));
  }

  // Each with options of its own.
  explicit QuorumGroup(const std::vector<RedisServerOptions>& options) {
    for (const RedisServerOptions& each : options) servers_.push_back(RedisServer::Start(each));
  }

  size_t size() const { return servers_.size(); }
  RedisServer& operator[](size_t i) { return *servers_[i]; }

  std::string url(const std::string& options = {}) const { return QuorumUrl(servers_, options); }

  // On how many servers a key is.
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
