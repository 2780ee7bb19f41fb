#ifndef REDLATCH_SRC_BASE_WORKER_H_
#define REDLATCH_SRC_BASE_WORKER_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"

namespace redlatch::base {

// A thread that calls one function whenever it is due or Wake() asks for it, and again soon if
// memory was lacking. The thread starts when
// it is first needed. Thread-safe. A forked child neither uses nor destroys it: the thread does not
// exist there.
class Worker {
 public:
  // `work` does what is due, and returns when it is due next. `name` has 15 characters at most.
  Worker(const char* name, std::function<Instant()> work) : name_(name), work_(std::move(work)) {}
  ~Worker() { Stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Starts the thread, which works at once; does nothing if it runs or was stopped. Returns
  // false if no thread can be started.
  bool Start();
  // Has the thread work again, even if it is working now. Starts the thread if needed.
  void Wake();
  bool started() const { return started_.load(std::memory_order_acquire); }

  // Waits until the thread has done its present work; it does no more. Returns true if the thread
  // had started. Do not call it on the thread.
  bool Stop();

 private:
  void Run();

  const char* const name_;
  const std::function<Instant()> work_;
  Atomic<bool> started_{false};  // it stays set after Stop()
  Mutex mu_;
  CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mu_) = true;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_WORKER_H_
