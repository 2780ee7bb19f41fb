#ifndef REDLATCH_SRC_LOCK_ENTRY_H_
#define REDLATCH_SRC_LOCK_ENTRY_H_

#include <atomic>
#include <cassert>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "redlatch/stats.h"
#include "src/base/mutex.h"
#include "src/lock/lock_type.h"
#include "src/lock/state/lock_state.h"
#include "src/lock/timer_heap.h"

namespace redlatch::internal {

// One lock of one client: its machine, and all that running its scripts takes. An explicit Owner
// has an entry of its own beside that of the client's threads, so that it waits for them, and they
// for it, as for another client.
struct Entry {
  Entry(KeySet key_set, std::string holder, std::shared_ptr<const LockType> lock_type,
        const LockState::Config& config, LockStats* counted_in)
      : keys(std::move(key_set)),
        owner(std::move(holder)),
        type(std::move(lock_type)),
        account(counted_in),
        state(config) {}

  const KeySet keys;
  const std::string owner;  // empty: the client's threads; of several names: Plan::OthersId()
  const std::shared_ptr<const LockType> type;
  // What people call it.
  std::string_view name() const { return type->title.empty() ? keys.name() : type->title; }
  // The table's: takes what the machine has counted when the entry goes; null: nothing is counted.
  LockStats* const account;

  base::Mutex mu;
  LockState state ABSL_GUARDED_BY(mu);

  // The grant that the machine bids for, or has; 0: none. Who has a message about it finds its
  // entry by this.
  std::atomic<GrantId> grant{0};

  // A grant that another client wants, as a message said; 0: none. Whoever feeds the machine next
  // tells it: threads that take and leave a kept lock all the time would keep the listening one
  // from it.
  std::atomic<GrantId> recalled{0};
  std::atomic<bool> tried{false};  // by a client that does not wait for it

  std::atomic<int> objects{0};     // lock objects
  std::atomic<int> references{0};  // sessions, and whoever works on the entry just now

  Timer request_timer{*this};  // the renewer's
  Timer expiry_timer{*this};   // the notifier's
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ENTRY_H_
