// How a driver ends: by its own thread, or, while that runs completions, by whoever stops it.
#include <utility>

#include "src/engine/runtime/async_driver.h"
#include "src/engine/runtime/async_script.h"
#include "src/engine/runtime/core.h"

namespace redlatch::engine {
namespace {

constexpr absl::Duration kStopTurn = absl::Milliseconds(1);
constexpr absl::Duration kStopPatience = absl::Seconds(1);  // for completions

}  // namespace

void AsyncDriver::Stop(base::Instant until) {
  mu_.Lock();
  stopping_ = true;
  stop_by_ = until;
  Signal();
  changed_.SignalAll();
  while (started_ && !settled_ && !completing_) changed_.Wait(mu_);
  if (!settled_) {
    settled_ = settling_ = true;
    mu_.Unlock();
    Settle(until);
    mu_.Lock();
    settling_ = false;
    changed_.SignalAll();
  }
  mu_.Unlock();
  rounds_.Stop();  // whose answers nobody waits for any more
  mu_.Lock();
  if (!started_) {  // there was no thread to be had, or no need of one
    RunRest();
    ended_ = true;
  }
  const base::Instant end = base::Now() + kStopPatience;
  while (!ended_ && !OnItsThread() && base::Now() < end) changed_.WaitUntil(mu_, end);
  mu_.Unlock();
}

// Nothing of the core's is left.
void AsyncDriver::RunRest() {
  for (;;) {
    if (!completions_.empty() || !buried_.empty()) {
      RunCompletions();
    } else if (settling_) {
      changed_.Wait(mu_);
    } else {
      return;
    }
  }
}

void AsyncDriver::StepAll(unsigned events) {
  std::vector<AsyncTask*> all;
  {
    const base::MutexLock lock(mu_);
    for (AsyncTask* task = first_; task != nullptr; task = task->next_) all.push_back(task);
  }
  // In the order in which they came.
  for (auto task = all.rbegin(); task != all.rend(); ++task) StepOf(**task, events, base::Now());
}

void AsyncDriver::Settle(base::Instant until) {
  TakeTurn();
  StepAll(AsyncTask::kEnding);
  for (;;) {
    TakeTurn();
    {
      const base::MutexLock lock(mu_);
      if (first_ == nullptr || until <= base::Now()) break;
      if (!inbox_.empty()) continue;
    }
    // Where another thread reads, that brings the answers.
    if (letters_ == 0 || !core_.deployment().DrainAll(base::Now() + kStopTurn)) {
      base::Parker().ParkUntil(base::Now() + kStopTurn);
    }
  }
  StepAll(AsyncTask::kOver);
  TakeTurn();  // what is over and in the inbox
}

}  // namespace redlatch::engine
