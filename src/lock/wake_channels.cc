#include "src/lock/wake_channels.h"

#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"
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

bool WakeChannels::Listens(const Entry& entry, GrantId acquire) const {
  if (count_ == 0 || acquire == 0) return false;
  const std::string name = NameOf(entry.keys, *entry.type, acquire);
  const base::MutexLock lock(mu_);
  const auto found = channels_.find(name);
  return found != channels_.end() && found->second.live &&
         std::ranges::any_of(found->second.acquires, [&](const auto& each) {
           return each.first == &entry && each.second == acquire;
         });
}

bool WakeChannels::ListensAt(const KeySet& keys, const LockType& type) const {
  if (count_ == 0) return false;
  const std::string name = NameOf(keys, type, 0);
  const base::MutexLock lock(mu_);
  return channels_.contains(name);
}

absl::Status WakeChannels::Listen(Entry& entry, base::Instant deadline,
                                  const std::stop_token& stop) {
  GrantId acquire = 0;
  GrantId left = 0;
  {
    const base::MutexLock lock(entry.mu);
    acquire = entry.state.pending_acquire();
    left = std::exchange(entry.listens, acquire);
  }
  if (left != 0 && left != acquire) Leave(entry, left);
  if (acquire == 0) return absl::OkStatus();
  const std::string name = NameOf(entry.keys, *entry.type, acquire);
  const std::pair<Entry*, GrantId> mine(&entry, acquire);
  int losses = 0;
  {
    const base::MutexLock lock(mu_);
    auto& [live, so_far, acquires] = channels_[name];
    if (std::ranges::find(acquires, mine) == acquires.end()) acquires.push_back(mine);
    count_ = channels_.size();
    losses = so_far;
  }
  absl::Status subscribed =
      core_.server_group().SubscribeTo(entry.keys.main(), name, deadline, stop);
  // The acquire is over, and its channel was left meanwhile.
  if (absl::IsCancelled(subscribed)) return absl::OkStatus();
  const base::MutexLock lock(mu_);
  const auto found = channels_.find(name);
  if (found != channels_.end() && found->second.losses == losses && subscribed.ok()) {
    found->second.live = true;
  }
  return subscribed;
}

void WakeChannels::Leave(Entry& entry, GrantId acquire) {
  const std::string name = NameOf(entry.keys, *entry.type, acquire);
  {
    const base::MutexLock lock(mu_);
    const auto found = channels_.find(name);
    if (found == channels_.end()) return;
    std::erase(found->second.acquires, std::pair<Entry*, GrantId>(&entry, acquire));
    if (!found->second.acquires.empty()) return;
    channels_.erase(found);
    count_ = channels_.size();
  }
  core_.server_group().Forget(name);
  Take(name, /*arrives=*/false);  // another acquire may have subscribed before that
}

bool WakeChannels::Take(std::string_view channel, bool arrives) try {
  if (count_ == 0) return false;
  std::vector<std::pair<Entry*, GrantId>> woken;
  {
    const base::MutexLock lock(mu_);
    const auto found = channels_.find(channel);
    if (found == channels_.end()) return false;
    if (!arrives) {
      found->second.live = false;
      ++found->second.losses;
    }
    woken = found->second.acquires;
    for (const auto& [entry, acquire] : woken) LockTable::Refer(*entry);
  }
  for (const auto& [entry, acquire] : woken) {
    core_.Feed(*entry, [grant = acquire](LockState& state, Effects& effects) {
      state.OnAskAgain(grant, effects);
    });
    core_.lock_table().Unrefer(*entry);
  }
  return true;
} catch (const std::bad_alloc&) {
  return true;  // the waiters ask at their next heartbeat
}

void WakeChannels::SubscribeAgain(const redis::ServerGroup::Concerned& concerned) {
  std::vector<std::string> names;
  {
    const base::MutexLock lock(mu_);
    for (const auto& [name, channel] : channels_) {
      if (!concerned || concerned(channel.acquires.front().first->keys.main())) {
        names.push_back(name);
      }
    }
  }
  for (const std::string& name : names) {
    core_.server_group().Forget(name);
    Take(name, /*arrives=*/false);
  }
}

}  // namespace redlatch::internal
