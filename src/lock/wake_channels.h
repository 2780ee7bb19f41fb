#ifndef REDLATCH_SRC_LOCK_WAKE_CHANNELS_H_
#define REDLATCH_SRC_LOCK_WAKE_CHANNELS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"
#include "src/redis/server_group/server_group.h"

namespace redlatch::internal {

class ClientCore;
struct WakeChannel;

// A pending acquire that listens on a channel.
struct ChannelListener {
  Entry* entry;
  GrantId acquire;
  int64_t permits;  // that it wants
  WakeChannel* channel;
  uint64_t number;  // in the order in which they came
  bool woken;       // a message has made it ask

  // Returns true if messages for that acquire arrive.
  bool live(GrantId its_acquire) const;
};

struct WakeChannel {
  base::Atomic<bool> live{false};
  int losses = 0;    // of the subscription; one asked for before the last loss is not live
  int64_t free = 0;  // how many permits the last message let the listeners ask for
  std::map<uint64_t, ChannelListener> listeners = {};
  const std::string* name = nullptr;

  // Returns the first listener after that one that wants no more permits, or null.
  ChannelListener* Next(uint64_t after, int64_t permits, bool even_if_woken);
};

inline bool ChannelListener::live(GrantId its_acquire) const {
  return acquire == its_acquire && channel->live.load(std::memory_order_acquire);
}

// The channels on which Redisson tells the waiters of its locks that they may ask. Pending acquires
// listen there while they wait: a FairLock's on a channel of its own, the others on one per lock.
// Any client that may publish can send a message, and all that it does is to make waiters ask the
// server. The waiters of a read-write lock and of a latch all ask. Of the others, as many ask as a
// message says that there are permits, in the order in which they came. When one of them has ended,
// the next one asks: messages may have come while it did. Thread-safe.
class WakeChannels {
 public:
  explicit WakeChannels(ClientCore& core) : core_(core) {}
  WakeChannels(const WakeChannels&) = delete;
  WakeChannels& operator=(const WakeChannels&) = delete;

  // Returns true if any acquire of this client listens on the lock's channel.
  bool ListensAt(const KeySet& keys, const LockType& type) const;
  // Subscribes the entry's pending acquire, until it is no longer pending: Feed() calls Leave().
  absl::Status Listen(Entry& entry, base::Instant deadline);
  void Leave(ChannelListener& left) noexcept;

  // A message has come, or (null) the server no longer sends any on that channel. Returns false if
  // it is not one of these channels.
  bool Take(std::string_view name, std::optional<std::string_view> message) noexcept;
  // The channels of these keys may lie at another server by now.
  void SubscribeAgain(const redis::ServerGroup::Concerned& concerned);

 private:
  void Unsubscribe(const std::string& name) noexcept;
  void Wake(Entry& entry, GrantId acquire);
  std::string NameOf(const KeySet& keys, const LockType& type, GrantId acquire) const;

  ClientCore& core_;
  mutable base::Mutex mu_;
  std::map<std::string, WakeChannel, std::less<>> channels_ ABSL_GUARDED_BY(mu_);
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_WAKE_CHANNELS_H_
