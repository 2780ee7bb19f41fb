#ifndef REDLATCH_SRC_LOCK_WAKE_CHANNELS_H_
#define REDLATCH_SRC_LOCK_WAKE_CHANNELS_H_

#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"
#include "src/redis/server_group/server_group.h"

namespace redlatch::internal {

class ClientCore;

// The channels on which Redisson tells the waiters of its locks that they may ask. Pending acquires
// listen there while they wait: a FairLock's on a channel of its own, the others on one per lock.
// Any client that may publish can send a message, and all that it does is to make a waiter ask the
// server. Thread-safe.
class WakeChannels {
 public:
  explicit WakeChannels(ClientCore& core) : core_(core) {}
  WakeChannels(const WakeChannels&) = delete;
  WakeChannels& operator=(const WakeChannels&) = delete;

  // Returns true if messages for that acquire arrive.
  bool Listens(Entry& entry, GrantId acquire) const;
  // Returns true if any acquire of this client listens on the lock's channel.
  bool ListensAt(const KeySet& keys, const LockType& type) const;
  // Subscribes the entry's pending acquire, until it is no longer pending: Feed() calls Leave().
  absl::Status Listen(Entry& entry, base::Instant deadline, const std::stop_token& stop);
  void Leave(Entry& entry, GrantId acquire);

  // A message has come, or the server no longer sends any on that channel. Returns false if it is
  // not one of these channels.
  bool Take(std::string_view channel, bool arrives);
  // The channels of these keys may lie at another server by now.
  void SubscribeAgain(const redis::ServerGroup::Concerned& concerned);

 private:
  using Acquire = std::pair<Entry*, GrantId>;
  struct Channel {
    bool live = false;
    int losses = 0;  // of the subscription; one asked for before the last loss is not live
    std::set<Acquire> acquires = {};  // never empty
  };

  void Unsubscribe(const std::string& name);
  std::string NameOf(const KeySet& keys, const LockType& type, GrantId acquire) const;

  ClientCore& core_;
  mutable base::Mutex mu_;
  std::map<std::string, Channel, std::less<>> channels_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_WAKE_CHANNELS_H_
