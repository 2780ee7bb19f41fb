#include "tests/sim/world/cluster_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/sha1.h"
#include "src/redis/wire/codec.h"
#include "tests/sim/trace.h"

namespace redlatch::sim {
namespace {

constexpr size_t kShards = 3;
constexpr size_t kNodes = 6;
constexpr int kSlots = redis::kSlots;
constexpr int64_t kNodeTimeout = kSecond;
constexpr uint32_t kLaterNetwork = 0x0a000201;  // 10.0.2.1

std::string IdOf(size_t node) { return base::Sha1Hex(absl::StrCat("node ", node)); }

std::string HostText(Address address) {
  const std::string text = ToString(address);
  return text.substr(0, text.find(':'));
}

int FirstSlotOf(size_t shard) { return static_cast<int>(shard) * kSlots / 3; }

}  // namespace

ClusterGroup::ClusterGroup(const Surroundings& world)
    : ReplicatedGroup(world, kShards, kNodes, /*cluster=*/true), known_(kNodes) {
  for (size_t i = 0; i < kNodes; ++i) {
    known_[i].view = ViewOf(i);
    host(i).Prepare([this, i](RedisServer& redis) {
      PrepareServer(redis);
      redis.SetCluster(known_[i].view);
    });
  }
}

std::string ClusterGroup::Url() const {
  std::string url = "redis-cluster:/";
  for (size_t i = 0; i < kShards; ++i) {
    absl::StrAppend(&url, i == 0 ? "/" : ",", ToString(AddressOf(i)));
  }
  if (world_.plan.quarantine_ms > 0) {
    absl::StrAppend(&url, "?quarantine=", world_.plan.quarantine_ms, "ms");
  }
  return url;
}

size_t ClusterGroup::OwnerOf(int slot) const {
  const auto moved = moved_.find(slot);
  if (moved != moved_.end()) return moved->second;
  size_t shard = kShards - 1;
  while (slot < FirstSlotOf(shard)) --shard;
  return shard;
}

// The true state, from the position of that node.
ClusterView ClusterGroup::ViewOf(size_t node) {
  ClusterView view;
  view.me = IdOf(node);
  view.epoch = epoch_;
  for (size_t i = 0; i < kNodes; ++i) {
    const Address address = host(i).address();
    view.nodes.push_back({.id = IdOf(i),
                          .host = HostText(address),
                          .port = address.port,
                          .primary_id = IsPrimary(i) ? "" : IdOf(PrimaryOf(ShardOf(i))),
                          .failed = !host(i).up()});
  }
  std::vector<int> firsts = {FirstSlotOf(0), FirstSlotOf(1), FirstSlotOf(2), kSlots};
  for (const auto& [slot, shard] : moved_) firsts.insert(firsts.end(), {slot, slot + 1});
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  for (size_t i = 0; i + 1 < firsts.size(); ++i) {
    view.ranges.push_back({firsts[i], firsts[i + 1] - 1, IdOf(PrimaryOf(OwnerOf(firsts[i])))});
  }
  for (const auto& [slot, move] : moves_) {
    if (node == PrimaryOf(move.to)) view.importing[slot] = IdOf(PrimaryOf(move.from));
    if (node == PrimaryOf(move.from) && move.migrating) {
      view.migrating[slot] = IdOf(PrimaryOf(move.to));
    }
  }
  return view;
}

void ClusterGroup::Tell(size_t node) {
  Knowledge& known = known_[node];
  const bool down = known.view.down;
  known.view = ViewOf(node);
  known.view.down = down;
  known.told_at = kNever;
  if (host(node).up()) host(node).redis().SetCluster(known.view);
}

void ClusterGroup::TellOthers() {
  for (Knowledge& each : known_) each.told_at = now() + AWhile();
}

void ClusterGroup::Returned(size_t node) { known_[node].told_at = now() + AWhile(); }

void ClusterGroup::Promoted(size_t shard, size_t) {
  ++epoch_;
  TellOthers();
  Tell(PrimaryOf(shard));
}

// A node that does not reach the others reports that the cluster is down.
void ClusterGroup::TellIfDown(size_t i) {
  ClusterView& view = known_[i].view;
  const bool alone = node(i).isolated && now() - node(i).seen > kNodeTimeout;
  if (!host(i).up() || view.down == (alone || now() < known_[i].says_down_until)) return;
  view.down = !view.down;
  host(i).redis().SetCluster(view);
}

void ClusterGroup::Tick() {
  ReplicatedGroup::Tick();
  for (size_t i = 0; i < kNodes; ++i) {
    TellIfDown(i);
    if (Reachable(i) && known_[i].told_at <= now()) Tell(i);
  }
}

void ClusterGroup::Inject(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kMoveSlot:
      return BeginMove(fault);
    case FaultKind::kClusterDown:
      known_[IndexOf(HostOf(fault))].says_down_until = now() + fault.length_ms * kMilli;
      return;
    case FaultKind::kNewAddress:
      return ChangeAddress(fault);
    default:
      ReplicatedGroup::Inject(fault);
  }
}

// --- Slots that move

// Like redis-cli --cluster reshard: first the target is told, then the source.
void ClusterGroup::BeginMove(const Fault& fault) {
  const auto& objects = world_.plan.objects;
  const int slot = redis::SlotOf(objects[fault.detail % objects.size()].name);
  const size_t from = OwnerOf(slot);
  const size_t to = (from + 1 + fault.detail / 8 % (kShards - 1)) % kShards;
  if (moves_.contains(slot) || !Reachable(PrimaryOf(from)) || !Reachable(PrimaryOf(to))) return;
  Trace::Say("slot ", slot, " begins to move from ", ToString(host(PrimaryOf(from)).address()),
             " to ", ToString(host(PrimaryOf(to)).address()));
  const int64_t length = fault.length_ms * kMilli;
  moves_[slot] = {
      .slot = slot, .from = from, .to = to, .step = length / 4, .hurries = now() + length};
  Tell(PrimaryOf(to));
  world_.kernel.After(random_.Between(0, 3 * kMilli), [this, slot] {
    const auto move = moves_.find(slot);
    if (move == moves_.end()) return;
    move->second.migrating = true;
    Tell(PrimaryOf(move->second.from));
    GoOnWithMove(slot);
  });
}

// Moves one key after the other.
void ClusterGroup::GoOnWithMove(int slot) {
  const auto found = moves_.find(slot);
  if (found == moves_.end()) return;
  const Move& move = found->second;
  Host& from = host(PrimaryOf(move.from));
  Host& to = host(PrimaryOf(move.to));
  if (!from.hangs() && !to.hangs()) {
    const std::vector<std::string> keys = from.redis().KeysInSlot(slot);
    if (keys.empty()) return Finish(slot);
    const std::string& key = keys[random_.Below(keys.size())];
    Trace::Say("the key ", key, " moves");
    from.redis().MoveKey(key, to.redis());
  }
  const int64_t pause =
      std::min(random_.Between(0, 2 * move.step), std::max<int64_t>(move.hurries - now(), 0));
  world_.kernel.After(pause + kMilli, [this, slot] { GoOnWithMove(slot); });
}

void ClusterGroup::Finish(int slot) {
  const Move move = moves_[slot];
  Trace::Say("slot ", slot, " has moved");
  moves_.erase(slot);
  moved_[slot] = move.to;
  ++epoch_;
  received_[move.to] = now();
  TellOthers();
  Tell(PrimaryOf(move.to));
  const size_t source = PrimaryOf(move.from);
  known_[source].told_at = now() + random_.Between(0, 3 * kMilli);
  world_.kernel.After(known_[source].told_at - now(), [this, source] {
    if (Reachable(source)) Tell(source);
  });
}

// The replica that confirmed a hold was the former primary's, if its slot has moved since.
bool ClusterGroup::MayTrustAcks(size_t shard) {
  return received_[shard] < now() - LongestLease(world_.plan);
}

void ClusterGroup::FinishMoves(size_t shard) {
  const std::map<int, Move> moves = moves_;
  for (const auto& [slot, move] : moves) {
    if (move.from != shard && move.to != shard) continue;
    Host& from = host(PrimaryOf(move.from));
    Host& to = host(PrimaryOf(move.to));
    for (const std::string& key : from.redis().KeysInSlot(slot)) {
      from.redis().MoveKey(key, to.redis());
    }
    Finish(slot);
    Tell(PrimaryOf(move.from));
  }
}

// The node restarts at another address. The first node keeps its address, so that new clients find
// one.
void ClusterGroup::ChangeAddress(const Fault& fault) {
  const size_t i = 1 + fault.detail % (kNodes - 1);
  if (!host(i).up()) return;
  GoDown(host(i), fault.detail / kNodes % 2 == 0);
  world_.kernel.After(fault.length_ms * kMilli, [this, i] {
    host(i).SetAddress({.ip = kLaterNetwork + addresses_++, .port = host(i).address().port});
    ComeUp(host(i), host(i).redis().TakeSnapshot().keys);
    TellOthers();
    Tell(i);
  });
}

}  // namespace redlatch::sim
