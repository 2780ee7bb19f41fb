#ifndef REDLATCH_SRC_LOCK_ENTRY_H_
#define REDLATCH_SRC_LOCK_ENTRY_H_

#include <cassert>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "redlatch/stats.h"
#include "src/base/atomic.h"
#include "src/base/mutex.h"
#include "src/lock/lock_type.h"
#include "src/lock/state/lock_state.h"
#include "src/lock/timer_heap.h"

namespace redlatch::internal {

// What its scripts are given of a lock. It may have no entry any more.
struct NamedLock {
  KeySet keys;
  std::shared_ptr<const LockType> type;
  std::string owner;  // empty: the client's threads; of several names: LockType::OthersId()
};

struct ChannelListener;  // see WakeChannels

// One lock of one client: its lock state, and what it takes to run its scripts. An explicit Owner
// has an entry of its own, so that it and the client's threads wait for each other as separate
// clients do.
struct Entry : NamedLock {  // which never changes
  Entry(NamedLock lock, const LockState::Config& config, LockStats* counted_in)
      : NamedLock(std::move(lock)), account(counted_in), state(config) {}

  // The name for messages.
  std::string_view name() const { return type->title.empty() ? keys.name() : type->title; }
  // Owned by the table: receives the counts when the entry is removed. Null if nothing is counted.
  LockStats* const account;

  base::Mutex mu;
  LockState state ABSL_GUARDED_BY(mu);
  // The pending acquire for which WakeChannels::Listen() was called; null: none.
  ChannelListener* listens ABSL_GUARDED_BY(mu) = nullptr;

  // The grant or pending acquire of the lock state; 0 if there is none. Messages are matched to
  // entries by it.
  base::Atomic<GrantId> grant{0};

  // A grant that another client wants; 0 if there is none. The next thread that feeds the lock
  // state passes the recall on: threads that use a cached lock all the time could delay the
  // thread that reads the message.
  base::Atomic<GrantId> recalled{0};
  base::Atomic<bool> tried{false};  // the other client does not wait

  base::Atomic<int> objects{0};     // lock objects
  base::Atomic<int> references{0};  // handles, and threads that use the entry

  Timer request_timer{*this};  // of the background
  Timer expiry_timer{*this};   // of the loss notifier
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ENTRY_H_
