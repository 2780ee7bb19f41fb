#ifndef REDLATCH_SRC_LOCK_LANES_H_
#define REDLATCH_SRC_LOCK_LANES_H_

#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/thread.h"

namespace redlatch::internal {

// Runs the jobs of a lane in batches, one after the other, and different lanes at the same time.
// With a lane for each server, waiting for one server delays nothing that is due at another. A lane
// has a thread while it has jobs, and for a moment after. Thread-safe.
template <class Job>
class Lanes {
 public:
  using Jobs = std::vector<Job>;

  // `run`: runs a batch. The jobs that it leaves in it go into the lane's next batch.
  Lanes(const char* thread_name, std::function<void(Jobs&)> run)
      : thread_name_(thread_name), run_(std::move(run)) {}
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Returns false, and takes no jobs, if no thread can be started for them.
  bool Add(const std::string& name, Jobs& jobs) {
    std::vector<std::thread> ended;
    bool added = true;
    {
      const base::MutexLock lock(mu_);
      ended.swap(ended_);
      const auto [lane, is_new] = lanes_.try_emplace(name);
      if (is_new) {
        added = base::TryStartThread(lane->second.thread, thread_name_,
                                     [this, lane = lane] { Work(lane); });
      }
      if (!added) {
        lanes_.erase(lane);
      } else {
        std::move(jobs.begin(), jobs.end(), std::back_inserter(lane->second.waiting));
        added_.SignalAll();
      }
    }
    for (std::thread& thread : ended) base::Join(thread);
    return added;
  }

  // Waits until all jobs have run. No job may be added from here on.
  void Finish() {
    std::vector<std::thread> ended;
    {
      const base::MutexLock lock(mu_);
      finishing_ = true;
      added_.SignalAll();
      while (!lanes_.empty()) ended_one_.Wait(mu_);
      ended.swap(ended_);
    }
    for (std::thread& thread : ended) base::Join(thread);
  }

 private:
  struct Lane {
    Jobs waiting;
    std::thread thread;
  };
  using Place = typename std::map<std::string, Lane>::iterator;

  void Work(Place lane) {
    Jobs jobs;
    mu_.Lock();
    for (;;) {
      Jobs& waiting = lane->second.waiting;
      std::move(waiting.begin(), waiting.end(), std::back_inserter(jobs));
      waiting.clear();
      if (jobs.empty()) {
        const base::Instant until = base::Now() + kLinger;
        while (waiting.empty() && !finishing_ && base::Now() < until) added_.WaitUntil(mu_, until);
        if (waiting.empty()) break;
        continue;
      }
      mu_.Unlock();
      run_(jobs);
      mu_.Lock();
    }
    ended_.push_back(std::move(lane->second.thread));
    lanes_.erase(lane);
    ended_one_.SignalAll();
    mu_.Unlock();
  }

  // A thread that stays this long saves the next job the start of a thread.
  static constexpr absl::Duration kLinger = absl::Seconds(1);

  const char* const thread_name_;
  const std::function<void(Jobs&)> run_;
  base::Mutex mu_;
  base::CondVar ended_one_;
  base::CondVar added_;
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, Lane> lanes_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> ended_ ABSL_GUARDED_BY(mu_);  // to be joined
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LANES_H_
