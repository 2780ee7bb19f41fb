#include "src/cli/term/shards.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::cli {
namespace {

// With one node, while there are others.
constexpr absl::Duration kShardPatience = absl::Milliseconds(500);
// A shard of few slots takes many names, but not without end; and so many of one slot have a hash
// tag.
constexpr int kMostNames = 300'000;
constexpr int kEnoughOfOneSlot = 100;

absl::Status Explained(const absl::Status& why, const redis::HostAndPort& node) {
  if (why.message().find("cluster support disabled") == absl::string_view::npos) return why;
  return absl::FailedPreconditionError(
      absl::StrCat(node.text(), " is no node of a cluster (begin the URL with redis://)"));
}

}  // namespace

std::vector<Shard> ShardsOf(const redis::ClusterView& view) {
  std::vector<Shard> shards;
  for (const redis::SlotRange& range : view.ranges) {
    auto shard = std::ranges::find(shards, range.primary, &Shard::primary);
    if (shard == shards.end()) {
      shard =
          shards.insert(shard, {.primary = range.primary, .replicas = range.replicas, .slots = {}});
    }
    for (int slot = range.first; slot <= range.last; ++slot) {
      shard->slots.set(static_cast<size_t>(slot));
    }
  }
  std::ranges::sort(shards, {}, &Shard::primary);
  return shards;
}

std::optional<std::string> NameIn(const Shard& shard, std::string_view beginning) {
  std::optional<redis::Slot> first;
  bool spread = false;
  for (int i = 0; i < kMostNames && (spread || i < kEnoughOfOneSlot); ++i) {
    std::string name = absl::StrCat(std::string(beginning), ":", i);
    const redis::Slot slot = redis::SlotOf(name);
    if (shard.slots.test(slot)) return name;
    spread = spread || slot != first.value_or(slot);
    first = slot;
  }
  return std::nullopt;
}

absl::StatusOr<redis::ClusterView> FindCluster(const redis::Url& url,
                                               absl::Span<const redis::HostAndPort> nodes) {
  absl::Status why;
  for (const absl::Duration patience :
       {kShardPatience, url.connect_timeout + url.command_timeout}) {
    std::optional<redis::ClusterView> best;
    for (const redis::HostAndPort& node : nodes) {
      absl::StatusOr<redis::ClusterView> view =
          redis::AskForView(url, node, base::Now() + patience);
      if (!view.ok()) {
        why = Explained(view.status(), node);
        continue;
      }
      if (!best || best->epoch < view->epoch || view->well) best = *std::move(view);
      if (best->well) break;
    }
    if (best) return *std::move(best);
  }
  return why;
}

}  // namespace redlatch::cli
