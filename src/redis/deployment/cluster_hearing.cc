// Where a cluster client's messages come from, slot by slot, and what the map's thread does about
// those that do not come any more.
#include <algorithm>
#include <bitset>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/redis/deployment/cluster.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

// Of the map's thread, for one slot, and for all that it has to do before it looks again.
constexpr absl::Duration kHearingPatience = absl::Milliseconds(100);
constexpr absl::Duration kRound = absl::Milliseconds(300);
// Before a channel is tried again whose slot is on the move.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(50);

}  // namespace

std::string Cluster::slot_tag(std::string_view key) const { return TagOf(SlotOf(key)) + ":"; }

ClusterNodePtr Cluster::HeardAt(Slot slot) const {
  const base::MutexLock lock(mu_);
  const auto found = heard_at_.find(slot);
  return found == heard_at_.end() ? nullptr : found->second;
}

bool Cluster::listening(std::string_view key) const {
  const ClusterNodePtr at = HeardAt(SlotOf(key));
  return at != nullptr && map_->IsOwner(SlotOf(key), at.get());
}

bool Cluster::hears(std::string_view key) const {
  const ClusterNodePtr at = HeardAt(SlotOf(key));
  return at != nullptr && map_->IsOwner(SlotOf(key), at.get()) && at->server->live();
}

absl::Status Cluster::Listen(std::string_view key, base::Instant deadline,
                             const std::stop_token& stop) {
  return ListenTo(SlotOf(key), deadline, stop);
}

absl::Status Cluster::ListenTo(Slot slot, base::Instant deadline, const std::stop_token& stop) {
  const ClusterNodePtr before = HeardAt(slot);
  {
    const base::MutexLock lock(mu_);
    wanted_.set(slot);
  }
  absl::Status subscribed = Subscribe(slot, deadline, stop);
  bool moved = false;
  {
    const base::MutexLock lock(mu_);
    // Goes on in the background, unless it is refused for good.
    if (absl::IsUnavailable(subscribed)) silent_.set(slot);
    if (!subscribed.ok() && !absl::IsUnavailable(subscribed)) wanted_.reset(slot);
    moved = subscribed.ok() && before != nullptr && before != heard_at_[slot];
    if (moved) concerned_.set(slot);
  }
  // What was published meanwhile is lost: whoever waits looks for himself.
  if (moved) events_.on_reconnected();
  if (absl::IsUnavailable(subscribed)) map_->LookSoon();
  return subscribed;
}

absl::Status Cluster::Subscribe(Slot slot, base::Instant deadline, const std::stop_token& stop) {
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
    absl::Status subscribed = node.server->ListenTo(channel, deadline, stop);
    if (subscribed.ok()) {
      {
        const base::MutexLock lock(mu_);
        heard_at_[slot] = *owner;
      }
      if (map_->IsOwner(slot, &node)) return subscribed;
    } else if (const std::optional<Redirect> redirect = RedirectOf(subscribed)) {
      const bool known = map_->Follow(*redirect, node, deadline) != nullptr;
      if (known && ++redirects % kRedirectsAtOnce != 0) continue;
    } else if (NotSent(subscribed) || absl::IsCancelled(subscribed)) {
      map_->LookSoon();  // the slot has just left
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
  const ClusterNodePtr at = HeardAt(SlotOf(key));
  return at == nullptr ? parker.ParkUntil(deadline) : at->server->Await(key, parker, deadline);
}

void Cluster::Attend(std::string_view key, bool begins) {
  const Slot slot = SlotOf(key);
  ClusterNodePtr at;
  {
    const base::MutexLock lock(mu_);
    if (begins) {
      if (const auto found = heard_at_.find(slot); found != heard_at_.end()) at = found->second;
      attended_.emplace(slot, at);
    } else if (const auto found = attended_.find(slot); found != attended_.end()) {
      at = found->second;
      attended_.erase(found);
    }
  }
  if (at != nullptr) at->server->Attend(key, begins);
}

void Cluster::Look(std::string_view key) {
  const ClusterNodePtr at = HeardAt(SlotOf(key));
  if (at != nullptr) at->server->Look(key);
}

bool Cluster::wants_to_know(std::string_view key) const {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  return owner != nullptr && owner->server->wants_to_know(key);
}

void Cluster::NoteHearing(std::string_view key, bool hears, base::Instant asked) {
  // One that is just being subscribed anew says nothing of the connections.
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  if (owner != nullptr && listening(key)) owner->server->NoteHearing(key, hears, asked);
}

void Cluster::Doubt(std::string_view key, base::Instant now,
                    std::optional<base::Instant> missed_since) {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  if (owner != nullptr && listening(key)) owner->server->Doubt(key, now, missed_since);
}

// References to forgotten nodes would keep their connections open.
void Cluster::OnView() {
  view_whole_ = true;
  const auto forgotten = [](const auto& each) {
    return each.second != nullptr && each.second->forgotten;
  };
  const base::MutexLock lock(mu_);
  std::erase_if(heard_at_, forgotten);
  std::erase_if(asked_at_, forgotten);
  for (auto& each : attended_) {
    if (forgotten(each)) each.second = nullptr;
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
  if (reigns_ != nullptr) {
    reigns_->CheckAgain(server);
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
  map_->Wake();  // before it looks, which takes longer
  map_->LookSoon();
}

base::Instant Cluster::DoChores() {
  Describe();
  ListenAnew();
  // What is followed slot by slot is not all that a node has.
  const bool begins = reigns_ != nullptr && view_whole_;
  return begins ? reigns_->GoOn(*map_, base::Now() + kRound) : base::Instant::Infinite();
}

void Cluster::Describe() {
  {
    const base::MutexLock lock(mu_);
    if (std::exchange(described_, true)) return;
  }
  Call(own_.description_key, own_.description, base::Now() + kHearingPatience).IgnoreError();
}

void Cluster::ListenAnew() {
  std::bitset<kSlots> silent;
  size_t first = 0;
  {
    const base::MutexLock lock(mu_);
    silent = std::exchange(silent_, {});
    first = next_silent_;
  }
  const base::Instant until = base::Now() + kRound;
  bool heard = false;
  for (size_t i = 0, left = silent.count(); i < kSlots && left > 0; ++i) {
    const size_t each = (first + i) % kSlots;
    const auto slot = static_cast<Slot>(each);
    if (!silent.test(slot)) continue;
    const base::Instant now = base::Now();
    if (stopped_ || until <= now) break;
    silent.reset(slot);
    --left;
    const bool done = ListenTo(slot, std::min(until, now + kHearingPatience), {}).ok();
    heard |= done;
    const base::MutexLock lock(mu_);
    if (done) concerned_.set(slot);
    next_silent_ = (each + 1) % kSlots;
  }
  if (heard) events_.on_reconnected();
  if (silent.none() || stopped_) return;
  {
    const base::MutexLock lock(mu_);
    silent_ |= silent;
  }
  map_->LookSoon();  // which leads here again
}

}  // namespace redlatch::redis
