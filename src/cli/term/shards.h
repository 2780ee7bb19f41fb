// Which parts a cluster has.
#ifndef REDLATCH_SRC_CLI_TERM_SHARDS_H_
#define REDLATCH_SRC_CLI_TERM_SHARDS_H_

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/url/host_and_port.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/slot.h"

namespace redlatch::cli {

// A primary that serves slots, and its replicas.
struct Shard {
  redis::HostAndPort primary;
  std::vector<redis::HostAndPort> replicas;
  std::bitset<redis::kSlots> slots;

  bool Has(std::string_view key) const { return slots.test(redis::SlotOf(key)); }
};
// By their primaries.
std::vector<Shard> ShardsOf(const redis::ClusterView& view);

// A name in one of the shard's slots that begins so; nothing if none was found, as when the
// beginning has a hash tag of another shard.
std::optional<std::string> NameIn(const Shard& shard, std::string_view beginning);

// What one of these nodes says: the first that is well, else whoever is least behind. The error of
// the last where none answers.
absl::StatusOr<redis::ClusterView> FindCluster(const redis::Url& url,
                                               absl::Span<const redis::HostAndPort> nodes);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_SHARDS_H_
