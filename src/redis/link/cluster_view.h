// Which node serves which slots, as one node of a cluster sees it.
#ifndef REDLATCH_SRC_REDIS_LINK_CLUSTER_VIEW_H_
#define REDLATCH_SRC_REDIS_LINK_CLUSTER_VIEW_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

struct SlotRange {
  Slot first = 0;
  Slot last = 0;
  HostAndPort primary;
  std::vector<HostAndPort> replicas;
};

struct ClusterView {
  std::vector<SlotRange> ranges;
  bool well = false;          // the node sees all slots served, and most primaries
  int64_t epoch = 0;          // grows with each failover; a node that is behind is or was cut off
  std::set<std::string> ids;  // of the nodes; they never change
  std::set<HostAndPort> members;  // all nodes that it names, those without a slot too
};

// Reads the replies to CLUSTER SLOTS and CLUSTER INFO. `asked` is the node that sent them; its host
// is used if it does not know its own. Fails if there are more nodes than a cluster can have.
absl::StatusOr<ClusterView> ReadView(const Reply& slots, const Reply& info,
                                     const HostAndPort& asked);

// Returns a URL for one node, with the other settings of `url`, which is of Kind::kCluster.
Url UrlOfNode(const Url& url, const HostAndPort& node);

// Asks the node on a connection of its own. kUnavailable: the node knows of no node that serves
// slots.
absl::StatusOr<ClusterView> AskForView(const Url& url, const HostAndPort& node,
                                       base::Instant deadline);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_CLUSTER_VIEW_H_
