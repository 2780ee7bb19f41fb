#include "tests/sim/world/sentinel_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace redlatch::sim {
namespace {

constexpr size_t kServers = 3;
constexpr size_t kSentinels = 3;
constexpr uint16_t kSentinelPort = 26379;
constexpr uint32_t kSentinelNetwork = 0x0a000101;  // 10.0.1.1

}  // namespace

SentinelGroup::SentinelGroup(const Surroundings& world)
    : ReplicatedGroup(world, 1, kServers, /*cluster=*/false) {
  std::vector<Address> all;
  for (uint32_t i = 0; i < kSentinels; ++i) {
    all.push_back({.ip = kSentinelNetwork + i, .port = kSentinelPort});
  }
  for (const Address each : all) {
    watchers_.push_back(
        {.sentinel = std::make_unique<Sentinel>(world.network, each, all, host(0).address()),
         .isolated_with = kServers});
  }
}

std::string SentinelGroup::Url() const {
  std::string url = "redis-sentinel:/";
  for (const Watcher& each : watchers_) {
    absl::StrAppend(&url, url.back() == '/' ? "/" : ",", ToString(each.sentinel->address()));
  }
  absl::StrAppend(&url, "/", Sentinel::kPrimaryName);
  if (world_.plan.quarantine_ms > 0) {
    absl::StrAppend(&url, "?quarantine=", world_.plan.quarantine_ms, "ms");
  }
  return url;
}

std::vector<Address> SentinelGroup::Addresses() const {
  std::vector<Address> all = ReplicatedGroup::Addresses();
  for (const Watcher& each : watchers_) all.push_back(each.sentinel->address());
  return all;
}

bool SentinelGroup::Sees(const Watcher& watcher) const {
  return watcher.sentinel->up() && watcher.isolated_with == kServers;
}

bool SentinelGroup::MayPromote(size_t) {
  return std::count_if(watchers_.begin(), watchers_.end(),
                       [this](const Watcher& each) { return Sees(each); }) >= 2;
}

// The first sentinel decides; the others hear of it soon after, or later.
void SentinelGroup::Promoted(size_t, size_t) {
  ++epoch_;
  host(PrimaryOf(0)).redis().KillConnections(RedisServer::Clients::kAll);
  for (Watcher& each : watchers_) each.hears_at = now() + AWhile();
}

void SentinelGroup::Demoted(size_t node) {
  // An operator's REPLICAOF ends no connections; a sentinel's does.
  if (random_.OneIn(4)) return;
  host(node).redis().KillConnections(RedisServer::Clients::kAll);
}

void SentinelGroup::Returned(size_t node) {
  for (Watcher& each : watchers_) {
    if (each.isolated_with == node) each.isolated_with = kServers;
  }
}

std::vector<Address> SentinelGroup::OnMinoritySide(size_t node) {
  if (random_.OneIn(2)) return {};
  Watcher& one = watchers_[random_.Below(kSentinels)];
  one.isolated_with = node;
  return {one.sentinel->address()};
}

void SentinelGroup::Tick() {
  ReplicatedGroup::Tick();
  for (Watcher& each : watchers_) {
    if (!Sees(each) || each.sentinel->epoch() == epoch_ || now() < each.hears_at) continue;
    each.sentinel->Switch(host(PrimaryOf(0)).address(), epoch_);
  }
}

void SentinelGroup::Inject(const Fault& fault) {
  if (fault.kind != FaultKind::kSentinelDown) return ReplicatedGroup::Inject(fault);
  Sentinel& sentinel = *watchers_[fault.detail % kSentinels].sentinel;
  if (!sentinel.up()) return;
  sentinel.GoDown(fault.detail / kSentinels % 2 == 0);
  world_.kernel.After(fault.length_ms * kMilli, [&sentinel] { sentinel.ComeUp(); });
}

}  // namespace redlatch::sim
