#ifndef REDLATCH_SRC_LOCK_ACKED_RENEWALS_H_
#define REDLATCH_SRC_LOCK_ACKED_RENEWALS_H_

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "src/base/acks.h"
#include "src/base/clock.h"
#include "src/lock/entry.h"
#include "src/lock/lanes.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

class ClientCore;

// The renewals that count only when replicas have them. Those with the same demands at one server
// go in one batch, and what comes meanwhile in the next, since all wait for the same stream. A
// renewal that is not confirmed soon joins the next batch with twice the time, until its own time
// is over: so slow replicas keep others waiting for a second at most. Thread-safe.
class AckedRenewals {
 public:
  explicit AckedRenewals(ClientCore& core)
      : core_(core), lanes_("redlatch-acks", [this](Jobs& jobs) { RunEach(jobs); }) {}
  // Returns when the batches in progress have run; the rest fails.
  void Stop();
  AckedRenewals(const AckedRenewals&) = delete;
  AckedRenewals& operator=(const AckedRenewals&) = delete;

  // Runs the renewal, and waits for its answer until then; a later answer is dropped.
  Result Run(Entry& entry, const Request& request, base::Instant until) noexcept;
  // Runs it on a thread of this client's, and passes the answer to the entry's machine, or to a
  // function. After `until` it is no longer sent.
  using Then = std::function<void(Result)>;
  void Post(Entry& entry, const Request& request, Then then = nullptr,
            base::Instant until = base::Instant::Infinite());

 private:
  struct Job {
    Entry* entry;  // referred to
    Request request;
    Then then;  // null: its machine gets the answer
    base::Instant wanted_until;
    base::Instant until = {};  // the replicas' time; known from its first turn on
    absl::Duration slice = absl::Milliseconds(50);  // of that, the next time
  };
  using Jobs = std::vector<Job>;

  // One batch of each group of equal wants; keeps those that are to be run once more.
  void RunEach(Jobs& jobs);
  // Those that are to be run once more are put into `again`.
  void RunTogether(absl::Span<Job> jobs, Jobs& again);
  void Finish(Job& job, Result result);

  ClientCore& core_;
  std::atomic<bool> stopping_{false};
  Lanes<Job> lanes_;  // by server
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ACKED_RENEWALS_H_
