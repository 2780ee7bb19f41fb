#ifndef REDLATCH_SRC_ENGINE_RUNTIME_ENTRY_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_ENTRY_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "redlatch/stats.h"
#include "src/base/mutex.h"
#include "src/engine/machine/lock_machine.h"
#include "src/engine/protocol/plan.h"
#include "src/engine/runtime/timer_heap.h"

namespace redlatch::engine {

// One lock of one client: its machine, and all that running its scripts takes. An explicit Owner
// has an entry of its own beside that of the client's threads, so that it waits for them, and they
// for it, as for another client.
struct Entry {
  Entry(KeySet key_set, std::string holder, std::shared_ptr<const Plan> lock_plan,
        const LockMachine::Config& config, LockStats* counted_in)
      : keys(std::move(key_set)),
        owner(std::move(holder)),
        plan(std::move(lock_plan)),
        account(counted_in),
        machine(config) {}

  const KeySet keys;
  const std::string owner;  // empty: the client's threads
  const std::shared_ptr<const Plan> plan;
  // The table's: takes what the machine has counted when the entry goes; null: nothing is counted.
  LockStats* const account;

  base::Mutex mu;
  LockMachine machine ABSL_GUARDED_BY(mu);

  // The grant that the machine bids for, or has; 0: none. Who has a message about it finds its
  // entry by this.
  std::atomic<GrantId> grant{0};

  std::atomic<int> objects{0};     // lock objects
  std::atomic<int> references{0};  // sessions, and whoever works on the entry just now

  Timer send_timer{*this};    // the renewer's
  Timer expiry_timer{*this};  // the notifier's
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ENTRY_H_
