#ifndef REDLATCH_TESTS_SUPPORT_SENTINEL_GROUP_H_
#define REDLATCH_TESTS_SUPPORT_SENTINEL_GROUP_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support {

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

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_SENTINEL_GROUP_H_
