// The code of recipes/work-queue.md, and a test that runs it.
#include <algorithm>
#include <deque>
#include <future>
#include <latch>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "docs/code/expect.h"
#include "gtest/gtest.h"

struct Transcoding {
  int number;
};

// Stands for a queue that all hosts share.
class TranscodingQueue {
 public:
  explicit TranscodingQueue(int jobs) {
    for (int i = 1; i <= jobs; ++i) jobs_.push_back({i});
  }
  std::optional<Transcoding> Take() {
    const std::lock_guard<std::mutex> lock(mu_);
    if (jobs_.empty()) return std::nullopt;
    const Transcoding job = jobs_.front();
    jobs_.pop_front();
    return job;
  }
  void PutBack(Transcoding job) {
    const std::lock_guard<std::mutex> lock(mu_);
    jobs_.push_back(job);
  }

 private:
  std::mutex mu_;
  std::deque<Transcoding> jobs_;
};

absl::Status Run(const Transcoding& job, const std::stop_token& lost);

// [work]
#include <optional>
#include <stop_token>

#include "redlatch/semaphore.h"

// Runs on every thread of every host that works. On all of them together, at most three jobs run
// at a time. Returns when the queue is empty, or after `stop` has fired.
absl::Status WorkOff(redlatch::Semaphore& slots, TranscodingQueue& queue,
                     const std::stop_token& stop) {
  while (true) {
    // First the permit, then the job: a job that is taken never waits.
    const absl::StatusOr<redlatch::Permit> slot = slots.Acquire(1, {.stop = stop});
    if (absl::IsCancelled(slot.status())) return absl::OkStatus();
    if (!slot.ok()) return slot.status();
    const std::optional<Transcoding> job = queue.Take();
    if (!job) return absl::OkStatus();
    if (!Run(*job, slot->lost()).ok()) queue.PutBack(*job);
  }  // the permit goes back here, and the next worker gets it
}
// [/work]

std::mutex runs_mu;
std::vector<int> finished;
int running = 0;
int most_at_once = 0;

absl::Status Run(const Transcoding& job, const std::stop_token& lost) {
  static std::latch three(3);
  {
    const std::lock_guard<std::mutex> lock(runs_mu);
    most_at_once = std::max(most_at_once, ++running);
  }
  // Three do run at once.
  if (job.number <= 3) three.arrive_and_wait();
  const std::lock_guard<std::mutex> lock(runs_mu);
  --running;
  static bool first_time = true;
  if (job.number == 7 && std::exchange(first_time, false)) return absl::InternalError("no disk");
  if (lost.stop_requested()) return absl::AbortedError("lost");
  finished.push_back(job.number);
  return absl::OkStatus();
}

TEST(WorkQueueRecipe, ThreeJobsRunAtATimeOnAllHosts) {
  const redlatch::Client hosts[] = {Connected(), Connected()};
  redlatch::Semaphore one(hosts[0], "transcoders", 3);
  redlatch::Semaphore two(hosts[1], "transcoders", 3);
  TranscodingQueue queue(40);
  std::vector<std::future<absl::Status>> workers;
  for (int i = 0; i < 8; ++i) {
    workers.push_back(std::async(std::launch::async, [&, i] {
      return WorkOff(i % 2 == 0 ? one : two, queue, std::stop_token());
    }));
  }
  for (std::future<absl::Status>& worker : workers) ExpectOk(worker.get());
  EXPECT_EQ(most_at_once, 3);
  std::sort(finished.begin(), finished.end());
  std::vector<int> all(40);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(finished, all);
}

TEST(WorkQueueRecipe, AStoppedWorkerTakesNoJob) {
  const redlatch::Client host = Connected();
  redlatch::Semaphore slots(host, "transcoders", 3);
  const absl::StatusOr<redlatch::Permit> all = slots.Acquire(3);
  ExpectOk(all.status());
  TranscodingQueue queue(1);
  std::stop_source stop;
  std::future<absl::Status> worker =
      std::async(std::launch::async, [&] { return WorkOff(slots, queue, stop.get_token()); });
  stop.request_stop();
  ExpectOk(worker.get());
  EXPECT_TRUE(queue.Take().has_value());
}
