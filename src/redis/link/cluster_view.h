// Who serves which slots, as one node of a cluster sees it.
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
  bool well = false;  // the node sees all slots served, and most primaries
  int64_t epoch = 0;  // grows with each failover; one that is behind is cut off, or has been
  std::set<std::string> ids;      // of the nodes; they never change
  std::set<HostAndPort> members;  // all nodes that it names, those without a slot too
};

// Of CLUSTER SLOTS and CLUSTER INFO. `asked`: the node that says so; its host stands where it knows
// none for itself. More nodes than a cluster can have are refused.
absl::StatusOr<ClusterView> ReadView(const Reply& slots, const Reply& info,
                                     const HostAndPort& asked);

// A URL for one node, with all that `url`, of Kind::kCluster, says besides.
Url UrlOfNode(const Url& url, const HostAndPort& node);

// On a connection of its own. kUnavailable where the node knows of none that serves slots.
absl::StatusOr<ClusterView> AskForView(const Url& url, const HostAndPort& node,
                                       base::Instant deadline);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_CLUSTER_VIEW_H_
