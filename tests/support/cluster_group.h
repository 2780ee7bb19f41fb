#ifndef REDLATCH_TESTS_SUPPORT_CLUSTER_GROUP_H_
#define REDLATCH_TESTS_SUPPORT_CLUSTER_GROUP_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "src/redis/wire/slot.h"
#include "tests/support/redis_server.h"
#include "tests/support/resources.h"

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

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_CLUSTER_GROUP_H_
