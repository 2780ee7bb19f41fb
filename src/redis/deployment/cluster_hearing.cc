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

bool Cluster::listening(std::string_view key) const {
  const Slot slot = SlotOf(key);
  const ClusterNode* const at = heard_at_[slot].load(std::memory_order_acquire);
  return at != nullptr && at == map_->Owner(slot);
}

bool Cluster::hears(std::string_view key) const {
  const ClusterNode* const at = heard_at_[SlotOf(key)].load(std::memory_order_acquire);
  return at != nullptr && at == map_->Owner(SlotOf(key)) && at->server->live();
}

absl::Status Cluster::Listen(std::string_view key, base::Instant deadline,
                             const std::stop_token& stop) {
  return ListenTo(SlotOf(key), deadline, stop);
}

absl::Status Cluster::ListenTo(Slot slot, base::Instant deadline, const std::stop_token& stop) {
  const ClusterNode* const before = heard_at_[slot].load();
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
    moved = subscribed.ok() && before != nullptr && before != heard_at_[slot].load();
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
    const absl::StatusOr<ClusterNode*> owner = map_->AwaitOwner(slot, deadline);
    if (!owner.ok()) return owner.status();
    ClusterNode& node = **owner;
    ClusterNode* const before = asked_at_[slot].exchange(&node);
    if (before != nullptr && before != &node && before != map_->Owner(slot)) {
      before->server->Forget(channel);
    }
    absl::Status subscribed = node.server->ListenTo(channel, deadline, stop);
    if (subscribed.ok()) {
      heard_at_[slot].store(&node, std::memory_order_release);
      if (map_->Owner(slot) == &node) return subscribed;
    } else if (const std::optional<Redirect> redirect = RedirectOf(subscribed)) {
      map_->Follow(*redirect, node);
      if (++redirects % kRedirectsAtOnce != 0) continue;
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
  ClusterNode* const at = heard_at_[SlotOf(key)].load(std::memory_order_acquire);
  return at == nullptr ? parker.ParkUntil(deadline) : at->server->Await(key, parker, deadline);
}

void Cluster::Attend(std::string_view key, bool begins) {
  const Slot slot = SlotOf(key);
  ClusterNode* at = nullptr;
  {
    const base::MutexLock lock(mu_);
    if (begins) {
      at = heard_at_[slot].load(std::memory_order_acquire);
      attended_.emplace(slot, at);
    } else if (const auto found = attended_.find(slot); found != attended_.end()) {
      at = found->second;
      attended_.erase(found);
    }
  }
  if (at != nullptr) at->server->Attend(key, begins);
}

void Cluster::Look(std::string_view key) {
  ClusterNode* const at = heard_at_[SlotOf(key)].load(std::memory_order_acquire);
  if (at != nullptr) at->server->Look(key);
}

bool Cluster::wants_to_know(std::string_view key) const {
  const ClusterNode* const owner = map_->Owner(SlotOf(key));
  return owner != nullptr && owner->server->wants_to_know(key);
}

void Cluster::NoteHearing(std::string_view key, bool hears, base::Instant asked) {
  // One that is just being subscribed anew says nothing of the connections.
  if (listening(key)) map_->Owner(SlotOf(key))->server->NoteHearing(key, hears, asked);
}

void Cluster::Doubt(std::string_view key, base::Instant now,
                    std::optional<base::Instant> missed_since) {
  if (listening(key)) map_->Owner(SlotOf(key))->server->Doubt(key, now, missed_since);
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
  const base::MutexLock lock(mu_);
  for (int slot = 0; slot < kSlots; ++slot) {
    const ClusterNode* const owner = map_->Owner(static_cast<Slot>(slot));
    if (owner == nullptr || owner->server.get() == server) concerned_.set(static_cast<Slot>(slot));
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
