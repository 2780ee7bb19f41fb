#ifndef REDLATCH_SRC_LOCK_BACKGROUND_H_
#define REDLATCH_SRC_LOCK_BACKGROUND_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/worker.h"
#include "src/lock/entry.h"
#include "src/lock/script_batch.h"
#include "src/lock/state/request.h"
#include "src/lock/timer_heap.h"

namespace redlatch::internal {

class ClientCore;

// The client's own thread. It sends due requests that no caller drives, such as renewals,
// heartbeats and pending cleanups. It reacts to new connections and to lost messages, and describes
// the client from time to time. It starts when it is first needed. Thread-safe.
class Background {
 public:
  // `refresh`: how often the client describes itself.
  Background(ClientCore& core, absl::Duration refresh)
      : core_(core), refresh_(refresh), describe_at_(base::Now() + refresh) {}
  // Ends the thread, and serves what is due, until `until` at most.
  void Stop(base::Instant until);
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Starts the thread if needed. Returns false if it cannot be started.
  bool Ready() { return worker_.Start(); }
  // Something may be due sooner than before.
  void Wake() { worker_.Wake(); }
  void Schedule(Entry& entry, base::Instant moment);
  void Remove(Entry& entry);
  // Reserves memory for the timers of that many entries.
  void MakeRoom(size_t entries);
  enum Event : unsigned {
    kReconnected = 1,   // a connection was replaced: all grants are renewed, all waiters ask again
    kUnsubscribed = 2,  // no message arrives: all cached grants go back, since none can be recalled
    kTooManyCached = 4,  // more grants are cached than allowed
  };
  void Tell(Event event);

 private:
  base::Instant TakeTurn();
  // Returns when the first entry is due.
  base::Instant NextDue();
  std::vector<Entry*> TakeDue();
  void Serve(const std::vector<Entry*>& due);

  ClientCore& core_;
  const absl::Duration refresh_;
  base::Atomic<unsigned> events_{0};
  base::Instant describe_at_;  // used by the thread
  base::Mutex mu_;
  TimerHeap timers_ ABSL_GUARDED_BY(mu_);
  base::Worker worker_{"redlatch-renew", [this] { return TakeTurn(); }};
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_BACKGROUND_H_
