#include "tests/sim/world/server_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sim/world/cluster_group.h"
#include "tests/sim/world/sentinel_group.h"

namespace redlatch::sim {
namespace {

constexpr uint16_t kPort = 6379;
constexpr uint32_t kNetwork = 0x0a000001;  // 10.0.0.1

// Servers that know nothing of each other.
class SeparateServers final : public ServerGroup {
 public:
  explicit SeparateServers(const Surroundings& world) : ServerGroup(world) {
    for (int i = 0; i < world.plan.servers; ++i) {
      AddHost({}, {.speed = world.plan.server_clock_speed, .offset = i * 3 * kMilli});
    }
  }
};

}  // namespace

std::unique_ptr<ServerGroup> ServerGroup::Make(const Surroundings& world) {
  switch (world.plan.group) {
    case Group::kSentinel:
      return std::make_unique<SentinelGroup>(world);
    case Group::kCluster:
      return std::make_unique<ClusterGroup>(world);
    default:
      return std::make_unique<SeparateServers>(world);
  }
}

ServerGroup::ServerGroup(const Surroundings& world)
    : world_(world), random_(world.plan.seed ^ 0x5e7e) {}

Address ServerGroup::AddressOf(size_t i) {
  return {.ip = kNetwork + static_cast<uint32_t>(i), .port = kPort};
}

Host& ServerGroup::AddHost(ServerOptions options, Clock clock) {
  const size_t i = hosts_.size();
  options.seed = world_.plan.seed * 16 + i;
  hosts_.push_back(std::make_unique<Host>(world_.kernel, world_.network, AddressOf(i),
                                          std::move(options), clock));
  return *hosts_.back();
}

std::string ServerGroup::Url() const {
  std::vector<std::string> urls;
  for (const auto& host : hosts_) {
    urls.push_back(absl::StrCat("redis://", ToString(host->address())));
    if (world_.plan.restart_delay_ms == 0) continue;
    absl::StrAppend(&urls.back(), "?restart_delay=", world_.plan.restart_delay_ms, "ms");
  }
  return world_.plan.group == Group::kQuorum ? absl::StrCat("redlock:", absl::StrJoin(urls, ","))
                                             : urls.front();
}

std::vector<Address> ServerGroup::Addresses() const {
  std::vector<Address> all;
  for (const auto& host : hosts_) all.push_back(host->address());
  return all;
}

}  // namespace redlatch::sim
