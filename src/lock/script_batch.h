#ifndef REDLATCH_SRC_LOCK_SCRIPT_BATCH_H_
#define REDLATCH_SRC_LOCK_SCRIPT_BATCH_H_

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/lock/entry.h"
#include "src/lock/lanes.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

class ClientCore;

// Builds and runs the requests that no caller drives, and hands out their results. Requests of one
// server that are due together go in one batch. Each server has a lane, so a server that hangs
// delays no other. Renewals that replicas must confirm, and requests that the event driver cannot
// post, have lanes of their own. Thread-safe.
class ScriptBatch {
 public:
  // Receives the result. It must not block.
  using Then = std::function<void(Result)>;
  struct Job {
    // with a reference; null: `then` is work of the background, not a request
    Entry* entry = nullptr;
    Request request;
    Then then = nullptr;  // null: the entry's state gets the result
    // No result is wanted from then on; Instant(): a part of the lease after it is sent.
    base::Instant until = {};
    // For a renewal that replicas must confirm: until when, known from its first batch on, and how
    // long its next batch waits for them.
    base::Instant acks_until = {};
    absl::Duration slice = absl::Milliseconds(50);
  };
  using Jobs = std::vector<Job>;
  // A request of a lock that may have no entry any more. It refers to type and owner.
  struct Bare {
    KeySet keys;
    const LockType& type;
    std::string_view owner;
    Request request;
  };

  explicit ScriptBatch(ClientCore& core);
  ScriptBatch(const ScriptBatch&) = delete;
  ScriptBatch& operator=(const ScriptBatch&) = delete;

  // Runs the request in the next batch of its lane. `then` is called at once if there is no thread.
  void Post(Entry& entry, const Request& request, Then then = nullptr, base::Instant until = {});
  // The same for jobs of the background, whose server is given. Those that cannot wait for a lane
  // run on the calling thread.
  void PostAll(const std::string& server, Jobs jobs);
  // Posts the request, and waits for its result until then; a later result is dropped.
  Result Run(Entry& entry, const Request& request, base::Instant until) noexcept;
  // Runs the requests in one batch on the calling thread, and returns their results.
  std::vector<Result> RunHere(absl::Span<const Bare> requests, base::Instant until);
  // Returns when all batches have run. No renewal waits for replicas any more.
  void Stop();
  // The latest time for a batch of the background, from here on.
  void EndBy(base::Instant until) { end_by_ = until.nanos(); }

 private:
  void RunLane(Jobs& jobs);
  void RunPlain(absl::Span<Job> jobs);
  void RunConfirmed(Jobs& jobs);
  void RunConfirmedGroup(absl::Span<Job> jobs, Jobs& again);
  void DropLate(Jobs& jobs, const char* why);
  void Finish(Job& job, Result result);

  ClientCore& core_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> end_by_{base::Instant::Infinite().nanos()};
  Lanes<Job> lanes_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_SCRIPT_BATCH_H_
