#include "src/lock/wake_channels.h"

#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/lock/client_core.h"
#include "src/lock/kinds.h"

namespace redlatch::internal {

std::string WakeChannels::NameOf(const KeySet& keys, const LockType& type, GrantId acquire) const {
  const std::string_view kind = type.traits.kind;
  if (kind == kinds::kRedissonLatch) {
    return absl::StrCat("redisson_countdownlatch__channel__{", std::string(keys.main()), "}");
  }
  std::string name = AuxiliaryKey(keys.main(), type.use == GrantUse::kPermit ? "redisson_sc:"
                                               : kind == kinds::kRedissonReadWriteLock
                                                   ? "redisson_rwlock:"
                                                   : "redisson_lock__channel:");
  if (kind == kinds::kRedissonFairLock) {
    absl::StrAppend(&name, ":", core_.identity().client, ":", acquire);
  }
  return name;
}

ChannelListener* WakeChannel::Next(uint64_t after, int64_t permits, bool even_if_woken) {
  for (auto next = listeners.upper_bound(after); next != listeners.end(); ++next) {
    ChannelListener& its = next->second;
    if (its.permits <= permits && (even_if_woken || !its.woken)) return &its;
  }
  return nullptr;
}

bool WakeChannels::ListensAt(const KeySet& keys, const LockType& type) const {
  const std::string name = NameOf(keys, type, 0);
  const base::MutexLock lock(mu_);
  const auto found = channels_.find(name);
  return found != channels_.end() && !found->second.listeners.empty();
}

absl::Status WakeChannels::Listen(Entry& entry, base::Instant deadline) {
  std::string name;
  ChannelListener* left = nullptr;
  uint64_t number = 0;
  int losses = 0;
  {
    // Both are noted at once: when Feed() finds `listens`, there is a channel to leave.
    const base::MutexLock entry_lock(entry.mu);
    const GrantId acquire = entry.state.pending_acquire();
    ChannelListener* mine = entry.listens;
    if (acquire != 0) {
      name = NameOf(entry.keys, *entry.type, acquire);
      const base::MutexLock lock(mu_);
      const auto at = channels_.try_emplace(name).first;
      WakeChannel& channel = at->second;
      channel.name = &at->first;
      if (mine == nullptr || mine->acquire != acquire) {
        const int64_t permits =
            entry.type->use == GrantUse::kPermit ? entry.state.pending_permits() : 1;
        const ChannelListener listener{&entry, acquire, permits, &channel, ++last_number_, false};
        mine = &channel.listeners.emplace(listener.number, listener).first->second;
      }
      number = mine->number;
      losses = channel.losses;
    } else {
      mine = nullptr;
    }
    left = std::exchange(entry.listens, mine);
    if (left == mine) left = nullptr;
  }
  if (left != nullptr) Leave(*left);
  if (number == 0) return absl::OkStatus();
  absl::Status subscribed = core_.server_group().SubscribeTo(entry.keys.main(), name, deadline);
  {
    const base::MutexLock lock(mu_);
    const auto found = channels_.find(name);
    if (found != channels_.end() && !found->second.listeners.empty()) {
      WakeChannel& channel = found->second;
      const bool waits = channel.listeners.contains(number);
      if (waits && subscribed.ok() && channel.losses == losses) channel.live = true;
      return waits && !absl::IsCancelled(subscribed) ? subscribed : absl::OkStatus();
    }
  }
  Unsubscribe(name);  // the acquire is over, and no other one listens
  return absl::OkStatus();
}

void WakeChannels::Leave(ChannelListener& left) noexcept {
  std::map<std::string, WakeChannel, std::less<>>::node_type empty;
  Entry* entry = nullptr;
  GrantId acquire = 0;
  {
    const base::MutexLock lock(mu_);
    WakeChannel& channel = *left.channel;
    const bool woken = left.woken;
    channel.listeners.erase(left.number);
    if (channel.listeners.empty()) {
      empty = channels_.extract(channels_.find(*channel.name));
    } else if (ChannelListener* const next =
                   woken ? channel.Next(0, channel.free, /*even_if_woken=*/false) : nullptr) {
      next->woken = true;
      entry = next->entry;
      acquire = next->acquire;
      LockTable::Refer(*entry);
    }
  }
  if (!empty.empty()) Unsubscribe(empty.key());
  if (entry != nullptr) Wake(*entry, acquire);
}

void WakeChannels::Unsubscribe(const std::string& name) noexcept {
  base::WithMemory([&] { core_.server_group().Forget(name); });
  Take(name, std::nullopt);  // another acquire may have subscribed before that
}

bool WakeChannels::Take(std::string_view name, std::optional<std::string_view> message) noexcept {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  int64_t permits = 1;
  uint64_t after = 0;
  for (bool taken = false;; taken = true) {
    Entry* entry = nullptr;
    GrantId acquire = 0;
    {
      const base::MutexLock lock(mu_);
      const auto found = channels_.find(name);
      if (found == channels_.end()) return taken;
      WakeChannel& channel = found->second;
      if (!taken && !message) {
        channel.live = false;
        ++channel.losses;
      }
      if (!taken && !channel.listeners.empty()) {
        const LockType& type = *channel.listeners.begin()->second.entry->type;
        const bool all = type.use == GrantUse::kLatch ||
                         type.traits.kind == kinds::kRedissonReadWriteLock || !message;
        if (all) {
          permits = kAny;
        } else if (type.use == GrantUse::kPermit) {  // it says how many are free
          std::from_chars(message->data(), message->data() + message->size(), permits);
        }
        channel.free = all ? 0 : permits;
      }
      ChannelListener* const next = channel.Next(after, permits, /*even_if_woken=*/true);
      if (next == nullptr) return true;
      next->woken = permits != kAny;
      if (next->woken) permits -= next->permits;
      after = next->number;
      entry = next->entry;
      acquire = next->acquire;
      LockTable::Refer(*entry);
    }
    Wake(*entry, acquire);
  }
}

void WakeChannels::Wake(Entry& entry, GrantId acquire) {
  core_.Feed(entry,
             [&](LockState& state, Effects& effects) { state.OnAskAgain(acquire, effects); });
  core_.lock_table().Unrefer(entry);
}

void WakeChannels::SubscribeAgain(const redis::ServerGroup::Concerned& concerned) {
  std::vector<std::string> names;
  {
    const base::MutexLock lock(mu_);
    for (const auto& [name, channel] : channels_) {
      if (channel.listeners.empty()) continue;
      if (!concerned || concerned(channel.listeners.begin()->second.entry->keys.main())) {
        names.push_back(name);
      }
    }
  }
  for (const std::string& name : names) Unsubscribe(name);
}

}  // namespace redlatch::internal
