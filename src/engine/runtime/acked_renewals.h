#ifndef REDLATCH_SRC_ENGINE_RUNTIME_ACKED_RENEWALS_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_ACKED_RENEWALS_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "src/base/acks.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/engine/machine/script_io.h"
#include "src/engine/runtime/entry.h"

namespace redlatch::engine {

class Core;

// The renewals that count only when replicas have them, and the thread that runs them: those of
// equal wants in one batch, and what comes meanwhile in the next, since all wait for the same
// stream. What is not confirmed soon joins the next batch, and is given twice the time, as often as
// its patience allows: so replicas that are slow keep others waiting for a second at most. The
// thread starts when it is first needed. Thread-safe.
class AckedRenewals {
 public:
  explicit AckedRenewals(Core& core) : core_(core) {}
  // Ends the thread, when it has run what is under way; the rest fails.
  void Stop();
  AckedRenewals(const AckedRenewals&) = delete;
  AckedRenewals& operator=(const AckedRenewals&) = delete;

  // Runs the renewal, and waits for its answer until then; a later answer is thrown away.
  Answer Run(Entry& entry, const Send& send, base::Instant until);
  // Has it run, and its answer given to the entry's machine, or to a function, on a thread of this
  // client's. It is not sent any more once `until` has passed.
  using Then = std::function<void(Answer)>;
  void Post(Entry& entry, const Send& send, Then then = nullptr,
            base::Instant until = base::Instant::Infinite());

 private:
  struct Job {
    Entry* entry;  // referred to
    Send send;
    Then then;  // null: its machine is told
    base::Instant wanted_until;
    base::Instant until = {};  // replicas may take; known from its first turn on
    absl::Duration slice = absl::Milliseconds(50);  // of that, the next time
    const std::string* server = nullptr;            // the name of the one that has it now
  };
  using Jobs = std::vector<Job>;

  // False: there is no thread to run it.
  bool Add(Job& job);
  void Work();
  // One batch of each group of equal wants; keeps those that are to be run once more.
  void RunEach(Jobs& jobs);
  // Those that are to be run once more are put into `again`.
  void RunTogether(absl::Span<Job> jobs, Jobs& again);
  void Finish(Job& job, Answer answer);

  Core& core_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Jobs jobs_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ACKED_RENEWALS_H_
