#include "src/base/worker.h"

#include <new>
#include <utility>

#include "src/base/thread.h"

namespace redlatch::base {

bool Worker::Start() {
  if (started()) return true;
  const MutexLock lock(mu_);
  if (!started() && !stopping_) {
    started_.store(TryStartThread(thread_, name_, [this] { Run(); }), std::memory_order_release);
  }
  return started() || stopping_;
}

void Worker::Wake() {
  Start();
  {
    const MutexLock lock(mu_);
    woken_ = true;
  }
  changed_.SignalOne();
}

bool Worker::Stop() {
  std::thread thread;
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  changed_.SignalOne();
  Join(thread);
  return started();
}

void Worker::Run() {
  Instant due;
  mu_.Lock();
  while (!stopping_) {
    if (!woken_ && Now() < due) {
      changed_.WaitUntil(mu_, due);
      continue;
    }
    woken_ = false;
    mu_.Unlock();
    try {
      due = work_();
    } catch (const std::bad_alloc&) {
      due = Now() + absl::Milliseconds(1);
    }
    mu_.Lock();
  }
  mu_.Unlock();
}

}  // namespace redlatch::base
