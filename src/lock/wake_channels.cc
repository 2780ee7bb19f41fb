#include "src/lock/wake_channels.h"

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

bool WakeChannels::Listens(Entry& entry, GrantId acquire) const {
  if (acquire == 0) return false;
  const std::string name = NameOf(entry.keys, *entry.type, acquire);
  const base::MutexLock lock(mu_);
  const auto found = channels_.find(name);
  return found != channels_.end() && found->second.live &&
         found->second.acquires.contains({&entry, acquire});
}

bool WakeChannels::ListensAt(const KeySet& keys, const LockType& type) const {
  const std::string name = NameOf(keys, type, 0);
  const base::MutexLock lock(mu_);
  return channels_.contains(name);
}

absl::Status WakeChannels::Listen(Entry& entry, base::Instant deadline,
                                  const std::stop_token& stop) {
  Acquire mine(&entry, 0);
  std::string name;
  GrantId left = 0;
  int losses = 0;
  {
    // Both are noted at once: when Feed() finds `listens`, there is a channel to leave.
    const base::MutexLock entry_lock(entry.mu);
    mine.second = entry.state.pending_acquire();
    if (mine.second != 0) {
      name = NameOf(entry.keys, *entry.type, mine.second);
      const base::MutexLock lock(mu_);
      Channel& channel = channels_.try_emplace(name, Channel{.acquires = {mine}}).first->second;
      channel.acquires.insert(mine);
      losses = channel.losses;
    }
    left = std::exchange(entry.listens, mine.second);
  }
  if (left != 0 && left != mine.second) Leave(entry, left);
  if (mine.second == 0) return absl::OkStatus();
  absl::Status subscribed =
      core_.server_group().SubscribeTo(entry.keys.main(), name, deadline, stop);
  {
    const base::MutexLock lock(mu_);
    const auto found = channels_.find(name);
    if (found != channels_.end()) {
      const bool waits = found->second.acquires.contains(mine);
      if (waits && subscribed.ok() && found->second.losses == losses) found->second.live = true;
      return waits && !absl::IsCancelled(subscribed) ? subscribed : absl::OkStatus();
    }
  }
  Unsubscribe(name);  // the acquire is over, and no other one listens
  return absl::OkStatus();
}

void WakeChannels::Leave(Entry& entry, GrantId acquire) {
  const std::string name = NameOf(entry.keys, *entry.type, acquire);
  {
    const base::MutexLock lock(mu_);
    const auto found = channels_.find(name);
    if (found == channels_.end()) return;
    found->second.acquires.erase({&entry, acquire});
    if (!found->second.acquires.empty()) return;
    channels_.erase(found);
  }
  Unsubscribe(name);
}

void WakeChannels::Unsubscribe(const std::string& name) {
  core_.server_group().Forget(name);
  Take(name, /*arrives=*/false);  // another acquire may have subscribed before that
}

bool WakeChannels::Take(std::string_view channel, bool arrives) try {
  std::set<Acquire> woken;
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
      if (!concerned || concerned(channel.acquires.begin()->first->keys.main())) {
        names.push_back(name);
      }
    }
  }
  for (const std::string& name : names) Unsubscribe(name);
}

}  // namespace redlatch::internal
