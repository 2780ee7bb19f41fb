#ifndef REDLATCH_SRC_LOCK_LOSS_NOTIFIER_H_
#define REDLATCH_SRC_LOCK_LOSS_NOTIFIER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"
#include "src/lock/timer_heap.h"

namespace redlatch::internal {

class ClientCore;

// Watches the local deadlines of all holds, and runs the user's code that reacts to losses: stop
// tokens first, then callbacks, each in the order in which they came.
//
// One thread leads: it waits for deadlines and for code to run. Before it runs code, it hands the
// lead to another thread, so that a user's code never delays a deadline. If a stop token takes
// longer than 1 ms, or a callback longer than 10 ms, the rest goes on in another thread, up to 64
// tokens and eight callbacks at once. Threads start when they are needed; the leader and one spare
// thread remain. Thread-safe.
class LossNotifier : public std::enable_shared_from_this<LossNotifier> {
 public:
  explicit LossNotifier(ClientCore& core) : core_(core) {}
  ~LossNotifier() {
    if (last_.joinable()) last_.detach();
  }
  LossNotifier(const LossNotifier&) = delete;
  LossNotifier& operator=(const LossNotifier&) = delete;

  // Ends the threads. Waits one second for running code; then it leaves the code to itself.
  void Stop();
  // Starts the thread if needed. Returns false if it cannot be started.
  bool Ready();
  void Watch(Entry& entry, base::Instant moment);
  void Remove(Entry& entry);
  // Reserves memory for the timers of that many entries.
  void MakeRoom(size_t entries);

  // A notice comes after callbacks, and is dropped if they do not keep up.
  enum class Urgency : uint8_t { kStopToken, kCallback, kNotice };
  void Post(Urgency urgency, std::function<void()> code);

 private:
  struct Queue {  // pieces of code that run in order
    // How long the latest piece runs alone; then the next one runs beside it.
    const absl::Duration to_itself;
    const int most;  // pieces that run at the same time if a user's code does not return
    std::deque<std::function<void()>> waiting = {};
    int running = 0;
    uint64_t latest = 0;  // the number of pieces that began
    bool latest_runs = false;
    base::Instant latest_began = {};

    bool open() const { return !waiting.empty() && running < most; }
    // When the first waiting piece may run.
    base::Instant Due() const {
      if (!open()) return base::Instant::Infinite();
      return latest_runs ? latest_began + to_itself : base::Instant();
    }
  };

  // `own`: the thread itself.
  void Work(std::thread& own);
  void RunFirst(Queue& queue, base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Starts a thread if all existing ones run users' code.
  void EnsureLeader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int running() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stop_tokens_.running + callbacks_.running;
  }

  ClientCore& core_;  // gone if a user's code returns after Stop()
  base::Mutex mu_;
  base::CondVar changed_;  // for the leader, and Stop()
  base::CondVar led_by_none_;
  TimerHeap timers_ ABSL_GUARDED_BY(mu_);
  // Stop tokens are many and urgent: until one is requested, even a thread that polls it is not
  // told.
  Queue stop_tokens_ ABSL_GUARDED_BY(mu_){.to_itself = absl::Milliseconds(1), .most = 64};
  Queue callbacks_ ABSL_GUARDED_BY(mu_){.to_itself = absl::Milliseconds(10), .most = 8};
  // The one that ended last. It joins the one before.
  std::thread last_ ABSL_GUARDED_BY(mu_);
  int threads_ ABSL_GUARDED_BY(mu_) = 0;
  bool has_spare_ ABSL_GUARDED_BY(mu_) = false;  // a thread waits to lead
  bool led_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LOSS_NOTIFIER_H_
