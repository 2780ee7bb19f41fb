#include "src/lock/async_rounds.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/lock/client_core.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

// In a cluster whose slots move, one that does not settle keeps others waiting for so long at most.
constexpr absl::Duration kLongestInACluster = absl::Milliseconds(250);

}  // namespace

void AsyncRounds::Run(Entry& entry, EncodedRequest request, base::Instant until, Then then) {
  Add({.entry = &entry, .request = std::move(request), .until = until, .then = std::move(then)});
}

void AsyncRounds::Run(Entry& entry, const Request& request, base::Instant until,
                      OnResult on_result) {
  Add({.entry = &entry,
       .request = request,
       .until = until,
       .then = nullptr,
       .on_result = std::move(on_result)});
}

void AsyncRounds::Add(Job job) {
  LockTable::Refer(*job.entry);
  {
    const base::MutexLock lock(mu_);
    if (!stopping_ && (thread_.joinable() ||
                       base::TryStartThread(thread_, "redlatch-rounds", [this] { Work(); }))) {
      jobs_.push_back(std::move(job));
      return changed_.SignalOne();
    }
  }
  Finish(job, redis::MarkNotSent(base::NoThread()));
}

void AsyncRounds::Stop() {
  std::thread thread;
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  changed_.SignalAll();
  base::Join(thread);
}

void AsyncRounds::Work() {
  mu_.Lock();
  while (!stopping_) {
    if (jobs_.empty()) {
      changed_.WaitUntil(mu_, base::Instant::Infinite());
      continue;
    }
    Jobs jobs = std::exchange(jobs_, {});
    mu_.Unlock();
    RunTogether(std::move(jobs));
    mu_.Lock();
  }
  Jobs rest = std::exchange(jobs_, {});
  mu_.Unlock();
  for (Job& job : rest) {
    Finish(job, redis::MarkNotSent(absl::UnavailableError("the client ends")));
  }
}

void AsyncRounds::RunTogether(Jobs jobs) {
  const base::Instant now = base::Now();
  const auto late = std::stable_partition(jobs.begin(), jobs.end(),
                                          [&](const Job& job) { return now < job.until; });
  for (auto job = late; job != jobs.end(); ++job) {
    Finish(*job, redis::MarkNotSent(absl::UnavailableError(
                     "the command could not be sent in time: others were in the way")));
  }
  jobs.erase(late, jobs.end());
  if (jobs.empty()) return;
  base::Instant until = now;  // that of the most patient
  for (const Job& job : jobs) until = std::max(until, job.until);
  if (core_.is_quorum()) return RunAtQuorum(jobs, until);
  if (core_.is_cluster()) until = std::min(until, now + kLongestInACluster);
  until = std::min(until, now + core_.command_timeout());
  std::vector<redis::ScriptCall> calls;
  for (Job& job : jobs) calls.push_back(std::get<EncodedRequest>(job.request).call());
  std::vector<absl::StatusOr<redis::Reply>> replies(calls.size());
  core_.server_group().Run(calls, until, absl::MakeSpan(replies));
  for (size_t i = 0; i < jobs.size(); ++i) Finish(jobs[i], std::move(replies[i]));
}

void AsyncRounds::RunAtQuorum(Jobs& jobs, base::Instant until) {
  std::vector<RequestRunner::Item> items;
  for (const Job& job : jobs) {
    items.push_back({.subject = core_.SubjectOf(*job.entry),
                     .request = std::get<Request>(job.request),
                     .until = job.until});
  }
  std::vector<Result> results(jobs.size());
  core_.runner().RunBatch(items, until, absl::MakeSpan(results));
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].on_result(std::move(results[i]));
    core_.machines().Unrefer(*jobs[i].entry);
  }
}

void AsyncRounds::Finish(Job& job, absl::StatusOr<redis::Reply> reply) {
  if (const auto* const request = std::get_if<Request>(&job.request)) {
    job.on_result(ReadResult(*request, reply));
  } else {
    job.then(std::move(reply));
  }
  core_.machines().Unrefer(*job.entry);
}

}  // namespace redlatch::internal
