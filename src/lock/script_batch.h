#ifndef REDLATCH_SRC_LOCK_SCRIPT_BATCH_H_
#define REDLATCH_SRC_LOCK_SCRIPT_BATCH_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/acks.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/worker.h"
#include "src/lock/entry.h"
#include "src/lock/request_runner.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

class ClientCore;

// Builds and runs the requests that no caller drives, and hands out their results. Requests of one
// server that are due together go in one batch. Each server has queues of its own, with a thread
// each, so a server that hangs delays no other: one for the background, one for requests with a
// deadline, and one for renewals that replicas must confirm. Thread-safe.
class ScriptBatch {
 public:
  // Receives the result. It must not block.
  using Then = std::function<void(Result&)>;  // it may take the result
  struct Job {
    Entry* entry = nullptr;          // with a reference; or:
    std::optional<NamedLock> other;  // requires `then`
    Request request;
    Then then = nullptr;  // null: the entry's state gets the result
    // No result is wanted from then on; Instant(): a part of the lease after it is sent.
    base::Instant until = {};
    // For a renewal that replicas must confirm: until when, known from its first batch on, and how
    // long its next batch waits for them.
    base::Instant acks_until = {};
    absl::Duration slice = absl::Milliseconds(50);

    const NamedLock& lock() const { return entry != nullptr ? *entry : *other; }
  };
  using Jobs = std::vector<Job>;

  explicit ScriptBatch(ClientCore& core) : core_(core) {}
  ScriptBatch(const ScriptBatch&) = delete;
  ScriptBatch& operator=(const ScriptBatch&) = delete;

  // Runs the jobs in the next batches of their queues. The background has queues only in a
  // cluster; otherwise, and if no thread can be started, its jobs run on the calling thread.
  void Post(Jobs jobs);
  // The same for one request of an entry.
  void Post(Entry& entry, const Request& request, Then then = nullptr, base::Instant until = {});
  // Posts the request, and waits for its result until then; a later result is dropped.
  Result Run(Entry& entry, const Request& request, base::Instant until) noexcept;
  // Returns when all batches have run. No renewal waits for replicas any more.
  void Stop();
  // The latest time for a batch of the background, from here on.
  void EndBy(base::Instant until) { end_by_ = until.nanos(); }

 private:
  struct Queue {
    explicit Queue(ScriptBatch& batch)
        : worker("redlatch-batch", [this, &batch] { return batch.RunNext(*this); }) {}
    Jobs jobs;  // guarded by `mu_`
    base::Worker worker;
  };

  std::string QueueOf(const Job& job) const;
  bool Add(const std::string& name, Jobs& jobs);
  base::Instant RunNext(Queue& queue);
  void RunBatch(Jobs& jobs);
  void RunPlain(absl::Span<Job> jobs);
  void RunConfirmed(Jobs& jobs);
  static bool TakeAcks(const Job& job, Result& result, const absl::StatusOr<base::Acks>& acks);
  void DropLate(Jobs& jobs, const char* why);
  void Finish(Job& job, Result result);

  ClientCore& core_;
  base::Atomic<bool> stopping_{false};
  base::Atomic<int64_t> end_by_{base::Instant::Infinite().nanos()};
  base::Mutex mu_;
  std::map<std::string, Queue> queues_ ABSL_GUARDED_BY(mu_);  // by kind and server
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_SCRIPT_BATCH_H_
