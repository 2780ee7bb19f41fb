#ifndef REDLATCH_SRC_ENGINE_RUNTIME_ENTRY_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_ENTRY_H_

#include <atomic>
#include <cassert>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "redlatch/stats.h"
#include "src/base/mutex.h"
#include "src/engine/machine/bidder.h"
#include "src/engine/machine/latch_machine.h"
#include "src/engine/machine/lock_machine.h"
#include "src/engine/protocol/plan.h"
#include "src/engine/runtime/timer_heap.h"

namespace redlatch::engine {

// One lock of one client: its machine, and all that running its scripts takes. An explicit Owner
// has an entry of its own beside that of the client's threads, so that it waits for them, and they
// for it, as for another client.
struct Entry {
  Entry(KeySet key_set, std::string holder, std::shared_ptr<const Plan> lock_plan,
        const Bidder::Config& config, LockStats* counted_in)
      : keys(std::move(key_set)),
        owner(std::move(holder)),
        plan(std::move(lock_plan)),
        account(counted_in),
        machine(Make(*plan, config)) {}

  const KeySet keys;
  const std::string owner;  // empty: the client's threads; of several names: Plan::OthersId()
  const std::shared_ptr<const Plan> plan;
  // What people call it.
  std::string_view name() const { return plan->title.empty() ? keys.name() : plan->title; }
  // The table's: takes what the machine has counted when the entry goes; null: nothing is counted.
  LockStats* const account;

  base::Mutex mu;
  const std::unique_ptr<Bidder> machine ABSL_PT_GUARDED_BY(mu);
  // The same, of what can be held: of all but a latch.
  LockMachine& lock() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    assert(plan->sharing.holds);
    return static_cast<LockMachine&>(*machine);
  }

  // The grant that the machine bids for, or has; 0: none. Who has a message about it finds its
  // entry by this.
  std::atomic<GrantId> grant{0};

  // A grant that another client wants, as a message said; 0: none. Whoever feeds the machine next
  // tells it: threads that take and leave a kept lock all the time would keep the listening one
  // from it.
  std::atomic<GrantId> wanted{0};
  std::atomic<bool> tried{false};  // by a client that does not wait for it

  std::atomic<int> objects{0};     // lock objects
  std::atomic<int> references{0};  // sessions, and whoever works on the entry just now

  Timer send_timer{*this};    // the renewer's
  Timer expiry_timer{*this};  // the notifier's

 private:
  static std::unique_ptr<Bidder> Make(const Plan& plan, const Bidder::Config& config) {
    if (plan.sharing.holds) return std::make_unique<LockMachine>(config);
    return std::make_unique<LatchMachine>(config);
  }
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ENTRY_H_
