#ifndef REDLATCH_SRC_LOCK_RENEWER_H_
#define REDLATCH_SRC_LOCK_RENEWER_H_

#include <atomic>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"
#include "src/lock/lanes.h"
#include "src/lock/state/request.h"
#include "src/lock/timer_heap.h"

namespace redlatch::internal {

class ClientCore;

// The thread that runs those scripts of all locks for which no caller is there: renewals,
// heartbeats, releases and cancels that went unanswered. What is due together at one server travels
// in one pipelined write. In a cluster another thread waits for the answers of each node, so that a
// hung node delays nothing that is due elsewhere. The renewer's thread starts when it is first
// needed, and from then on also repeats who this client is. Thread-safe.
class Renewer {
 public:
  // `refresh`: how often the client describes itself.
  Renewer(ClientCore& core, absl::Duration refresh)
      : core_(core),
        refresh_(refresh),
        lanes_("redlatch-node", [this](Lanes<Job>::Jobs& jobs) { Run(jobs); }),
        describe_at_(base::Now() + refresh) {}
  // Ends the thread, after a last look at what is due, which takes no longer than `until`.
  void Stop(base::Instant until);
  Renewer(const Renewer&) = delete;
  Renewer& operator=(const Renewer&) = delete;

  // Starts the thread. False: it cannot be started.
  bool Ready();
  // There may be something else to do sooner than before.
  void Wake();
  void Schedule(Entry& entry, base::Instant moment);
  void Remove(Entry& entry);
  // For the timers of so many entries.
  void MakeRoom(size_t entries);
  // A connection was lost and made again: everything is renewed, every waiter asks again.
  void Reconnected();
  // No message arrives: nothing can be kept, as nobody can ask for it.
  void Unsubscribed();
  // More is kept than may be.
  void TooManyCached();

 private:
  struct Job {
    Entry* entry;  // referred to; null: repeats what this client has released and counted
    Request request;
  };

  void Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Work();
  void TakeDue(base::Instant now, std::vector<Entry*>& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Serve(const std::vector<Entry*>& due);
  void Repeat();
  void Run(std::vector<Job>& jobs);
  void RunBatch(absl::Span<const Job> jobs);
  base::Instant StopBy();

  ClientCore& core_;
  const absl::Duration refresh_;
  Lanes<Job> lanes_;  // of a cluster's nodes, by name
  std::atomic<bool> repeating_{false};
  base::Mutex mu_;
  base::CondVar changed_;
  TimerHeap timers_ ABSL_GUARDED_BY(mu_);
  base::Instant describe_at_ ABSL_GUARDED_BY(mu_);
  bool reconnected_ ABSL_GUARDED_BY(mu_) = false;
  bool unsubscribed_ ABSL_GUARDED_BY(mu_) = false;
  bool too_many_cached_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  base::Instant stop_by_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_RENEWER_H_
