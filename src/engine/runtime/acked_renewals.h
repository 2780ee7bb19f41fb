#ifndef REDLATCH_SRC_ENGINE_RUNTIME_ACKED_RENEWALS_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_ACKED_RENEWALS_H_

#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "src/base/acks.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/engine/machine/script_io.h"
#include "src/engine/runtime/entry.h"

namespace redlatch::engine {

class Core;

// The renewals that count only when replicas have them, and the thread that runs them: one batch at
// a time, and what comes meanwhile travels together in the next, since all wait for the same
// stream. The thread starts when it is first needed. Thread-safe.
class AckedRenewals {
 public:
  explicit AckedRenewals(Core& core) : core_(core) {}
  // Ends the thread, when it has run what is under way.
  void Stop();
  AckedRenewals(const AckedRenewals&) = delete;
  AckedRenewals& operator=(const AckedRenewals&) = delete;

  // Runs the renewal, and waits for its answer.
  Answer Run(Entry& entry, const Send& send);
  // Has it run, and its answer given to the entry's machine.
  void Post(Entry& entry, const Send& send);

 private:
  struct Caller {
    Answer answer;
    base::Parker parker;
  };
  struct Job {
    Entry* entry;  // referred to
    Send send;
    Caller* caller;  // null: its machine is told
  };

  // False: there is no thread to run it.
  bool Add(Job job);
  void Work();
  void RunTogether(absl::Span<Job> jobs);
  void Finish(Job& job, Answer answer);

  Core& core_;
  base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Job> jobs_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ACKED_RENEWALS_H_
