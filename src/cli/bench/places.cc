#include "src/cli/bench/places.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "redlatch/red_lock.h"
#include "redlatch/simple_lock.h"
#include "src/cli/bench/figures.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/wire/slot.h"

namespace redlatch::cli {

std::vector<std::string> OwnNames(const BenchPlan& plan) {
  std::vector<std::string> names;
  for (size_t thread = 0; thread < kBenchThreads; ++thread) {
    std::string name = absl::StrCat(plan.name, ":own:", thread);
    if (!plan.shards.empty()) {
      const Shard& shard = plan.shards[thread % plan.shards.size()];
      name = NameIn(shard, name).value_or(name);
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string SharedName(const BenchPlan& plan) { return absl::StrCat(plan.name, ":shared"); }

std::string HandOverName(const BenchPlan& plan) { return absl::StrCat(plan.name, ":hand-over"); }

redis::Url UrlOf(const BenchPlan& plan, std::string_view key) {
  for (const Shard& shard : plan.shards) {
    if (shard.Has(key)) return redis::UrlOfNode(plan.url, shard.primary);
  }
  return plan.url.members.empty() ? plan.url : plan.url.members.front();
}

std::unique_ptr<RedisLockBase> LockOf(const BenchPlan& plan, const Client& client,
                                      const std::string& name, absl::Duration lease) {
  const LockOptions options = {.lease = lease};
  if (!plan.url.members.empty()) return std::make_unique<RedLock>(client, name, options);
  return std::make_unique<SimpleLock>(client, name, options);
}

Talk::Talk(const BenchPlan& plan)
    : sharded_(!plan.shards.empty()),
      channel_(plan.channel + (sharded_ ? redis::TagOf(redis::SlotOf(HandOverName(plan))) : "")),
      url_(UrlOf(plan, channel_)) {}

std::string Talk::ChannelOf(int thread) const { return absl::StrCat(channel_, ":", thread); }

redis::Command Talk::Subscribe(int thread) const {
  return {sharded_ ? "SSUBSCRIBE" : "SUBSCRIBE", ChannelOf(thread)};
}

redis::Command Talk::Publish(int thread) const {
  return {sharded_ ? "SPUBLISH" : "PUBLISH", ChannelOf(thread), "x"};
}

}  // namespace redlatch::cli
