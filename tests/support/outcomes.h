// Collects the outcomes of asynchronous calls, for tests that wait for them.
#ifndef REDLATCH_TESTS_SUPPORT_OUTCOMES_H_
#define REDLATCH_TESTS_SUPPORT_OUTCOMES_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"

namespace redlatch::support {

// Collects the outcomes of any number of calls, in the order in which they come. Pass
// `outcomes.Callback()` to each call.
template <class Outcome>
class Outcomes {
 public:
  auto Callback() {
    return [state = state_](Outcome outcome) {
      const base::MutexLock lock(state->mu);
      state->all.push_back(std::move(outcome));
      state->changed.SignalAll();
    };
  }

  size_t size() const {
    const base::MutexLock lock(state_->mu);
    return state_->all.size();
  }
  // Waits until that many outcomes have come. Returns false if they do not come within `timeout`.
  bool Await(size_t count, absl::Duration timeout = absl::Seconds(10)) const {
    const base::Instant end = base::Now() + timeout;
    const base::MutexLock lock(state_->mu);
    while (state_->all.size() < count && base::Now() < end) {
      state_->changed.WaitUntil(state_->mu, end);
    }
    return state_->all.size() >= count;
  }
  // Waits for the outcome with that number, and takes it.
  Outcome Take(size_t number = 0) {
    Await(number + 1);
    const base::MutexLock lock(state_->mu);
    return std::move(state_->all.at(number));
  }

 private:
  struct State {
    base::Mutex mu;
    base::CondVar changed;
    std::vector<Outcome> all ABSL_GUARDED_BY(mu);
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_OUTCOMES_H_
