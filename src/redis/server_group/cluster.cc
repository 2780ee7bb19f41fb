#include "src/redis/server_group/cluster.h"

#include <algorithm>
#include <bitset>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

// How long the map's thread may take for one slot, and for all its chores before it refreshes
// again.
constexpr absl::Duration kSubscribeTimeout = absl::Milliseconds(100);
constexpr absl::Duration kRound = absl::Milliseconds(300);
// The pause before a channel whose slot is moving is tried again.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(50);

ScriptServerPtr ScriptsOf(const ClusterNodePtr& node) {
  return node == nullptr ? nullptr : ScriptServerPtr(node, &node->server->scripts());
}

}  // namespace

Cluster::Cluster(const Url& url, Own own, Events events)
    : ServerGroup(/*sharded=*/true),
      url_(url),
      name_(url.DebugString()),
      own_(std::move(own)),
      events_(std::move(events)),
      runner_(*this, name_),
      quarantine_(url.quarantine > absl::ZeroDuration()
                      ? std::make_unique<ClusterQuarantine>(own_.quarantine)
                      : nullptr),
      map_(std::make_unique<ClusterMap>(
          url,
          ClusterMap::Hooks{.make = [this](const HostAndPort& where) { return MakeNode(where); },
                            .on_moved = [this](Slot slot) { Concern(slot); },
                            .on_view = [this] { OnView(); },
                            .chores = [this] { return DoChores(); }})) {}

Cluster::~Cluster() { Stop(); }

void Cluster::operator delete(Cluster* cluster, std::destroying_delete_t) {
  if (cluster->fork_guard_.InForkedChild()) return cluster->map_->CloseInForkedChild();
  cluster->~Cluster();
  ::operator delete(cluster);
}

std::unique_ptr<SingleServer> Cluster::MakeNode(const HostAndPort& where) {
  auto self = std::make_shared<const SingleServer*>(nullptr);
  Events events = events_;
  events.on_reconnected = [this, self] {
    ConcernAllOf(*self);
    events_.on_reconnected();
  };
  auto node = std::make_unique<SingleServer>(
      UrlOfNode(url_, where), std::string(), std::vector<Command>(), own_.mark, std::move(events),
      Membership{.thread = subscriber_thread_,
                 .on_silent = [this](std::string_view channel) { Silent(channel); },
                 .on_down = [this] { map_->RefreshSoon(); }});
  *self = node.get();
  return node;
}

absl::Duration Cluster::grants_alone_for() const {
  std::optional<absl::Duration> longest;
  for (const ClusterNodePtr& node : map_->nodes()) {
    if (!node->server->known()) continue;
    longest = std::max(longest.value_or(absl::ZeroDuration()), node->server->grants_alone_for());
  }
  return longest.value_or(absl::Seconds(1));
}

std::string Cluster::server(std::string_view key) const {
  const ClusterNodePtr owner = key.empty() ? nullptr : map_->Owner(SlotOf(key));
  return owner == nullptr ? name_ : owner->server->server({});
}

absl::Status Cluster::Connect(base::Instant deadline, std::vector<std::string>& warnings) {
  if (absl::Status found = map_->AwaitSome(deadline); !found.ok()) return found;
  std::vector<ClusterNodePtr> nodes;
  for (ClusterNodePtr& each : map_->owners()) {
    const bool known = std::find(nodes.rbegin(), nodes.rend(), each) != nodes.rend();
    if (each != nullptr && !known) nodes.push_back(std::move(each));
  }
  absl::Status connected;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const base::Instant now = base::Now();
    connected = nodes[i]->server->Connect(
        now + (deadline - now) / static_cast<int64_t>(nodes.size() - i), warnings);
    if (!absl::IsUnavailable(connected)) break;
  }
  return connected;
}

absl::StatusOr<ScriptServerPtr> Cluster::OwnerOf(std::string_view key, base::Instant deadline) {
  absl::StatusOr<ClusterNodePtr> owner = map_->AwaitOwner(SlotOf(key), deadline);
  if (!owner.ok()) return owner.status();
  return ScriptsOf(*owner);
}

bool Cluster::IsOwnerOf(std::string_view key, const ScriptServer* server) const {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  return owner != nullptr && &owner->server->scripts() == server;
}

ScriptServerPtr Cluster::Follow(const Redirect& redirect, const ScriptServer& from,
                                base::Instant deadline) {
  HostAndPort where{.host = redirect.host, .port = redirect.port};
  for (const ClusterNodePtr& node : map_->nodes()) {
    if (where.host.empty() && &node->server->scripts() == &from) where.host = node->where.host;
  }
  return ScriptsOf(map_->Follow(redirect, where, deadline));
}

bool Cluster::Refresh(base::Instant deadline) {
  if (base::Now() < deadline) return map_->Refresh(deadline);
  map_->RefreshSoon();
  return false;
}

absl::Status Cluster::Send(std::string_view key, const Command& command, Done done) {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  if (owner == nullptr) {
    return absl::UnavailableError(absl::StrCat("not sent to ", name_, ": not connected"));
  }
  return owner->server->Send(key, command, std::move(done));
}

bool Cluster::Drain(base::Instant until) {
  bool all = true;
  for (const ClusterNodePtr& node : map_->nodes()) all = node->server->Drain(until) && all;
  return all;
}

void Cluster::BeginPoll(std::vector<Transport::Polled>& polled) {
  for (const ClusterNodePtr& node : map_->nodes()) node->server->BeginPoll(polled);
}

ServerGroup::Realigned Cluster::Realign() {
  for (const ClusterNodePtr& node : map_->nodes()) node->server->Realign();
  const base::MutexLock lock(mu_);
  return {.concerned = [concerned = std::exchange(concerned_, {})](
                           std::string_view key) { return concerned.test(SlotOf(key)); },
          .reconnected = std::exchange(reconnected_, false)};
}

ServerGroup::Stats Cluster::stats() const {
  Stats sum;
  for (const ClusterNodePtr& node : map_->nodes()) {
    const Stats stats = node->server->stats();
    sum.connects += stats.connects;
    sum.breaks += stats.breaks;
    sum.late += stats.late;
  }
  return sum;
}

void Cluster::Stop() {
  stopped_ = true;
  map_->Stop();
}

// ---- The subscriptions of a cluster's client, slot by slot, and how the map's thread repairs
// them.

ClusterNodePtr Cluster::SubscribedAt(Slot slot) const {
  const base::MutexLock lock(mu_);
  const auto found = subscribed_at_.find(slot);
  return found == subscribed_at_.end() ? nullptr : found->second;
}

bool Cluster::subscribed(std::string_view key) const {
  const ClusterNodePtr at = SubscribedAt(SlotOf(key));
  return at != nullptr && map_->IsOwner(SlotOf(key), at.get());
}

bool Cluster::subscribed_now(std::string_view key) const {
  const ClusterNodePtr at = SubscribedAt(SlotOf(key));
  return at != nullptr && map_->IsOwner(SlotOf(key), at.get()) && at->server->live();
}

absl::Status Cluster::SubscribeTo(Slot slot, base::Instant deadline, const std::stop_token& stop) {
  const ClusterNodePtr before = SubscribedAt(slot);
  {
    const base::MutexLock lock(mu_);
    wanted_.set(slot);
  }
  absl::Status subscribed = SubscribeOnce(slot, deadline, stop);
  bool moved = false;
  {
    const base::MutexLock lock(mu_);
    // The subscription continues in the background, unless it is refused for good.
    if (absl::IsUnavailable(subscribed)) silent_.set(slot);
    if (!subscribed.ok() && !absl::IsUnavailable(subscribed)) wanted_.reset(slot);
    moved = subscribed.ok() && before != nullptr && before != subscribed_at_[slot];
    if (moved) concerned_.set(slot);
  }
  // Messages published meanwhile are lost: all waiters must ask.
  if (moved) events_.on_reconnected();
  if (absl::IsUnavailable(subscribed)) map_->RefreshSoon();
  return subscribed;
}

absl::Status Cluster::SubscribeOnce(Slot slot, base::Instant deadline,
                                    const std::stop_token& stop) {
  const std::string channel = own_.channel(TagOf(slot) + ":");
  base::Backoff backoff(kFirstPause, kLongestPause);
  for (int redirects = 0;;) {
    const absl::StatusOr<ClusterNodePtr> owner = map_->AwaitOwner(slot, deadline);
    if (!owner.ok()) return owner.status();
    ClusterNode& node = **owner;
    ClusterNodePtr before;
    {
      const base::MutexLock lock(mu_);
      before = std::exchange(asked_at_[slot], *owner);
    }
    if (before != nullptr && before != *owner && !map_->IsOwner(slot, before.get())) {
      before->server->Forget(channel);
    }
    absl::Status subscribed = node.server->SubscribeTo(channel, deadline, stop);
    if (subscribed.ok()) {
      {
        const base::MutexLock lock(mu_);
        subscribed_at_[slot] = *owner;
      }
      if (map_->IsOwner(slot, &node)) return subscribed;
    } else if (const std::optional<Redirect> redirect = RedirectOf(subscribed)) {
      if (runner_.Follow(*redirect, node.server->scripts(), deadline, redirects)) continue;
    } else if (NotSent(subscribed) || absl::IsCancelled(subscribed)) {
      map_->RefreshSoon();  // the slot has just left
    } else {
      return subscribed;
    }
    const base::Instant next = base::Now() + backoff.Next();
    if (deadline <= next || stop.stop_requested()) {
      return absl::UnavailableError(
          absl::StrCat("the slot of ", channel, " moves (still trying in the background)"));
    }
    base::Parker().ParkUntil(next);
  }
}

uint32_t Cluster::Await(std::string_view key, base::Parker& parker, base::Instant deadline) {
  const ClusterNodePtr at = SubscribedAt(SlotOf(key));
  return at == nullptr ? parker.ParkUntil(deadline) : at->server->Await(key, parker, deadline);
}

void Cluster::KeepReading(std::string_view key, bool begins) try {
  const Slot slot = SlotOf(key);
  ClusterNodePtr at;
  {
    const base::MutexLock lock(mu_);
    if (begins) {
      if (const auto found = subscribed_at_.find(slot); found != subscribed_at_.end())
        at = found->second;
      read_at_once_at_.emplace(slot, at);
    } else if (const auto found = read_at_once_at_.find(slot); found != read_at_once_at_.end()) {
      at = found->second;
      read_at_once_at_.erase(found);
    }
  }
  if (at != nullptr) at->server->KeepReading(key, begins);
} catch (const std::bad_alloc&) {  // messages still arrive, only later
}

void Cluster::ReadNow(std::string_view key) {
  const ClusterNodePtr at = SubscribedAt(SlotOf(key));
  if (at != nullptr) at->server->ReadNow(key);
}

bool Cluster::asks_if_subscribed(std::string_view key) const {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  return owner != nullptr && owner->server->asks_if_subscribed(key);
}

void Cluster::NoteSubscribed(std::string_view key, bool is_subscribed, base::Instant asked) {
  // A subscription that is just being made says nothing about the connections.
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  if (owner != nullptr && subscribed(key)) owner->server->NoteSubscribed(key, is_subscribed, asked);
}

void Cluster::CheckSubscription(std::string_view key, base::Instant now,
                                std::optional<base::Instant> missed_since) {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  if (owner != nullptr && subscribed(key)) owner->server->CheckSubscription(key, now, missed_since);
}

// References to retired nodes would keep their connections open.
void Cluster::OnView() {
  view_whole_ = true;
  const auto retired = [](const auto& each) {
    return each.second != nullptr && each.second->retired;
  };
  const base::MutexLock lock(mu_);
  std::erase_if(subscribed_at_, retired);
  std::erase_if(asked_at_, retired);
  for (auto& each : read_at_once_at_) {
    if (retired(each)) each.second = nullptr;
  }
}

void Cluster::Concern(Slot slot) {
  view_whole_ = false;
  {
    const base::MutexLock lock(mu_);
    concerned_.set(slot);
    described_ = described_ && slot != SlotOf(own_.description_key);
    if (wanted_.test(slot)) silent_.set(slot);
  }
  map_->Wake();
  events_.on_reconnected();
}

void Cluster::ConcernAllOf(const SingleServer* server) {
  if (quarantine_ != nullptr) {
    quarantine_->CheckAgain(server);
    map_->Wake();
  }
  const std::vector<ClusterNodePtr> owners = map_->owners();
  const base::MutexLock lock(mu_);
  for (size_t slot = 0; slot < owners.size(); ++slot) {
    const ClusterNodePtr& owner = owners[slot];
    if (owner == nullptr || owner->server.get() == server) concerned_.set(slot);
  }
  described_ = described_ && !concerned_.test(SlotOf(own_.description_key));
  reconnected_ = true;
}

void Cluster::Silent(std::string_view channel) {
  const Slot slot = SlotOf(channel);
  {
    const base::MutexLock lock(mu_);
    silent_.set(slot);
  }
  map_->Wake();  // it subscribes again before the refresh, which takes longer
  map_->RefreshSoon();
}

base::Instant Cluster::DoChores() {
  Describe();
  SubscribeAgain();
  // After a redirection, the map does not have all slots of a new node yet.
  const bool begins = quarantine_ != nullptr && view_whole_;
  return begins ? quarantine_->GoOn(*map_, base::Now() + kRound) : base::Instant::Infinite();
}

void Cluster::Describe() {
  {
    const base::MutexLock lock(mu_);
    if (std::exchange(described_, true)) return;
  }
  Call(own_.description_key, own_.description, base::Now() + kSubscribeTimeout).IgnoreError();
}

void Cluster::SubscribeAgain() {
  std::bitset<kSlots> silent;
  size_t first = 0;
  {
    const base::MutexLock lock(mu_);
    silent = std::exchange(silent_, {});
    first = next_silent_;
  }
  const base::Instant until = base::Now() + kRound;
  bool subscribed = false;
  for (size_t i = 0, left = silent.count(); i < kSlots && left > 0; ++i) {
    const size_t each = (first + i) % kSlots;
    const auto slot = static_cast<Slot>(each);
    if (!silent.test(slot)) continue;
    const base::Instant now = base::Now();
    if (stopped_ || until <= now) break;
    silent.reset(slot);
    --left;
    const bool done = SubscribeTo(slot, std::min(until, now + kSubscribeTimeout), {}).ok();
    subscribed |= done;
    const base::MutexLock lock(mu_);
    if (done) concerned_.set(slot);
    next_silent_ = (each + 1) % kSlots;
  }
  if (subscribed) events_.on_reconnected();
  if (silent.none() || stopped_) return;
  {
    const base::MutexLock lock(mu_);
    silent_ |= silent;
  }
  map_->RefreshSoon();  // this calls SubscribeAgain() again
}

}  // namespace redlatch::redis
