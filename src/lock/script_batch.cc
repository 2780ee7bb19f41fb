#include "src/lock/script_batch.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/base/parker.h"
#include "src/base/status.h"
#include "src/lock/client_core.h"

namespace redlatch::internal {
namespace {

constexpr size_t kLargestBatch = 512;
constexpr absl::Duration kShortestTimeout = absl::Milliseconds(50);
// In a cluster, a request to a moving slot delays others for at most this long.
constexpr absl::Duration kLongestInACluster = absl::Milliseconds(250);
constexpr absl::Duration kShortestAckTimeout = absl::Milliseconds(1);
constexpr absl::Duration kLongestSlice = absl::Seconds(1);
// Each attempt writes again, and a server that syncs its disk every second would always be one
// attempt late.
constexpr absl::Duration kSliceOfFsync = absl::Seconds(2);
constexpr uint32_t kAnswered = 1;

const RenewRequest* ToConfirm(const Request& request) {
  const auto* const renewal = std::get_if<RenewRequest>(&request.what);
  return renewal != nullptr && renewal->acks.any() ? renewal : nullptr;
}

Result NotRun(absl::Status why) {
  return {.what = Failed{.why = std::move(why), .not_sent = true}};
}

std::string TooFew(const RenewRequest& renewal, const base::Acks& acks) {
  const base::AcksWanted& wanted = renewal.acks;
  const std::string synced =
      wanted.fsync && !acks.synced ? "not on the server's disk yet, and " : "";
  return absl::StrCat(synced, acks.replicas, " of ", wanted.replicas,
                      wanted.replicas == 1 ? " replica has" : " replicas have",
                      " confirmed it within ", absl::FormatDuration(renewal.ack_timeout),
                      " (are they connected? see redlatch doctor)");
}

}  // namespace

// Each server has replicas of its own.
std::string ScriptBatch::QueueOf(const Job& job) const {
  const KeySet& keys = job.lock().keys;
  if (ToConfirm(job.request) != nullptr) return "acks " + core_.server(keys.main());
  const std::string server = core_.is_cluster() ? core_.server(keys.main()) : "";
  return job.until == base::Instant() ? server : "posted " + server;
}

void ScriptBatch::Post(Jobs jobs) {
  std::map<std::string, Jobs> by_queue;
  for (Job& job : jobs) {
    base::WithMemory([&] { by_queue[QueueOf(job)].push_back(std::move(job)); });
  }
  for (auto& each : by_queue) {
    Jobs& its = each.second;
    if (!each.first.empty() && base::WithMemory([&] { return Add(each.first, its); })) continue;
    const Job& first = its.front();
    if (first.until == base::Instant() && ToConfirm(first.request) == nullptr) {
      RunBatch(its);
    } else {
      for (Job& job : its) Finish(job, NotRun(base::NoThread()));
    }
  }
}

void ScriptBatch::Post(Entry& entry, const Request& request, Then then, base::Instant until) {
  Jobs jobs;
  jobs.push_back({.entry = &entry, .request = request, .then = std::move(then), .until = until});
  LockTable::Refer(entry);
  Post(std::move(jobs));
}

// Returns false, and takes no jobs, if no thread can be started for them.
bool ScriptBatch::Add(const std::string& name, Jobs& jobs) {
  Queue* queue = nullptr;
  {
    const base::MutexLock lock(mu_);
    queue = &queues_.try_emplace(name, *this).first->second;
    if (stopping_ || !queue->worker.Start()) return false;
    queue->jobs.reserve(queue->jobs.size() + jobs.size());
    std::move(jobs.begin(), jobs.end(), std::back_inserter(queue->jobs));
  }
  queue->worker.Wake();
  return true;
}

base::Instant ScriptBatch::RunNext(Queue& queue) {
  Jobs jobs;
  {
    const base::MutexLock lock(mu_);
    jobs.swap(queue.jobs);
  }
  if (!jobs.empty()) RunBatch(jobs);
  if (jobs.empty()) return base::Instant::Infinite();
  const base::MutexLock lock(mu_);
  base::Reserve(queue.jobs, queue.jobs.size() + jobs.size());
  queue.jobs.insert(queue.jobs.begin(), std::move_iterator(jobs.begin()),
                    std::move_iterator(jobs.end()));
  return base::Instant();
}

void ScriptBatch::Stop() {
  std::vector<Queue*> queues;
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    for (auto& [name, queue] : queues_) queues.push_back(&queue);
  }
  for (Queue* const queue : queues) {
    queue->worker.Stop();
    while (RunNext(*queue) == base::Instant()) {
    }
  }
}

Result ScriptBatch::Run(Entry& entry, const Request& request, base::Instant until) noexcept try {
  struct Caller {
    Result result;
    base::Parker parker;
  };
  const auto caller = std::make_shared<Caller>();
  Post(
      entry, request,
      [caller](Result& result) {
        caller->result = std::move(result);
        caller->parker.Set(kAnswered);
      },
      until);
  if (caller->parker.ParkUntil(until) == kAnswered) return std::move(caller->result);
  return NoResult();
} catch (const std::bad_alloc&) {
  return NotRun(base::NoMemory());
}

void ScriptBatch::Finish(Job& job, Result result) {
  if (job.then) {
    base::WithMemory([&] { job.then(result); });
  } else {
    base::WithMemory([&] { core_.NoteAnswer(*job.entry, job.request, result); });
    core_.FeedWithRoom(*job.entry, [&](LockState& state, base::Instant now, Effects& effects) {
      state.OnResult(job.request, result, now, effects);
    });
  }
  if (job.entry != nullptr) core_.lock_table().Unrefer(*job.entry);
}

void ScriptBatch::DropLate(Jobs& jobs, const char* why) {
  const base::Instant now = base::Now();
  const auto late = std::stable_partition(jobs.begin(), jobs.end(), [&](const Job& job) {
    return job.until == base::Instant() || now < job.until;
  });
  for (auto job = late; job != jobs.end(); ++job) {
    Finish(*job, NotRun(base::MakeStatus(absl::StatusCode::kUnavailable, why)));
  }
  jobs.erase(late, jobs.end());
}

void ScriptBatch::RunBatch(Jobs& jobs) {
  if (ToConfirm(jobs.front().request) != nullptr) return RunConfirmed(jobs);
  DropLate(jobs, "the command could not be sent in time: others were in the way");
  for (size_t begin = 0; begin < jobs.size(); begin += kLargestBatch) {
    RunPlain(absl::MakeSpan(jobs).subspan(begin, kLargestBatch));
  }
  jobs.clear();
}

void ScriptBatch::RunPlain(absl::Span<Job> jobs) {
  const base::Instant now = base::Now();
  const bool posted = jobs.front().until != base::Instant();
  base::Instant least = base::Instant::Infinite();
  base::Instant most = now;
  std::vector<RequestRunner::Item> items;
  std::vector<Result> results;
  base::WithMemory([&] { items.reserve(jobs.size()), results.resize(jobs.size()); });
  for (const Job& job : jobs) {
    const base::Instant its =
        posted ? job.until : now + std::max(kShortestTimeout, job.request.lease / 3);
    least = std::min(least, its);
    base::WithMemory(
        [&] { items.push_back({.subject = core_.SubjectOf(job.lock()), .request = job.request}); });
    items.back().until = posted ? its : std::min(its, now + core_.command_timeout());
    most = std::max(most, items.back().until);
  }
  // At a quorum, each request has its own deadline: the shortest one must not end the batch for the
  // others.
  base::Instant until = core_.is_quorum() || posted ? most : least;
  if (!core_.is_quorum()) until = std::min(until, now + core_.command_timeout());
  if (posted && core_.is_cluster()) until = std::min(until, now + kLongestInACluster);
  if (!posted) until = std::min(until, base::Instant::FromNanos(end_by_));
  try {
    core_.runner().RunBatch(items, until, absl::MakeSpan(results));
  } catch (const std::bad_alloc&) {
    for (Result& each : results) each = NoMemoryLeft();  // they share no status
  }
  for (size_t i = 0; i < jobs.size(); ++i) Finish(jobs[i], std::move(results[i]));
}

// ---- Renewals that count only once replicas have them. Those of one server with the same demands
// wait together. A renewal that is not confirmed soon joins the next batch with twice the time,
// until its own time is over. So slow replicas delay others for at most one second.

void ScriptBatch::RunConfirmed(Jobs& jobs) {
  if (stopping_) {
    for (Job& job : jobs) {
      Finish(job, NotRun(base::MakeStatus(absl::StatusCode::kUnavailable, "the client ends")));
    }
    return jobs.clear();
  }
  DropLate(jobs, "it could not be confirmed in time: other holds were in the way");
  if (jobs.empty()) return;
  const base::AcksWanted wanted = ToConfirm(jobs.front().request)->acks;
  const auto others = std::stable_partition(jobs.begin(), jobs.end(), [&](const Job& job) {
    return ToConfirm(job.request)->acks == wanted;
  });
  // Renewals that have not had their turn go first in the next batch.
  const auto end = jobs.begin() + std::min<ptrdiff_t>(kLargestBatch, others - jobs.begin());
  Jobs again;
  base::Reserve(again, jobs.size());
  std::move(end, jobs.end(), std::back_inserter(again));
  jobs.erase(end, jobs.end());

  const base::Instant now = base::Now();
  absl::Duration ack_timeout = kShortestAckTimeout;
  std::vector<RequestRunner::Item> items;
  for (Job& job : jobs) {
    if (job.acks_until == base::Instant()) {
      // It may use at most half of the hold's remaining time when its first batch begins.
      const RenewRequest& renewal = *ToConfirm(job.request);
      if (wanted.fsync) job.slice = kSliceOfFsync;
      job.acks_until = now + std::clamp((renewal.deadline - now) / 2, kShortestAckTimeout,
                                        std::max(renewal.ack_timeout, kShortestAckTimeout));
    }
    ack_timeout = std::max(ack_timeout, std::min(job.slice, job.acks_until - now));
    base::WithMemory(
        [&] { items.push_back({.subject = core_.SubjectOf(job.lock()), .request = job.request}); });
  }
  std::vector<Result> results;
  base::WithMemory([&] { results.resize(jobs.size()); });
  absl::StatusOr<base::Acks> acks;
  try {
    acks = core_.runner().RunConfirmed(items, wanted, ack_timeout,
                                       now + ack_timeout + core_.command_timeout(),
                                       absl::MakeSpan(results));
  } catch (const std::bad_alloc&) {
    for (Result& each : results) each = NoMemoryLeft();  // they share no status
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (base::WithMemory([&] { return TakeAcks(jobs[i], results[i], acks); })) {
      Finish(jobs[i], std::move(results[i]));
    } else {
      if (!wanted.fsync && results[i].failed() == nullptr) {
        jobs[i].slice = std::min(2 * ack_timeout, kLongestSlice);
      }
      again.push_back(std::move(jobs[i]));
    }
  }
  jobs = std::move(again);
}

// Returns false if the renewal is to be sent again, since the connection may have changed. Its
// deadline counts from the first time.
bool ScriptBatch::TakeAcks(const Job& job, Result& result, const absl::StatusOr<base::Acks>& acks) {
  const RenewRequest& renewal = *ToConfirm(job.request);
  const bool in_time = base::Now() < job.acks_until;
  if (result.failed() != nullptr) {
    return !(result.refused_for_now() && in_time);  // a slot moves, for example
  }
  if (!acks.ok()) {
    // A reply that the grant is gone is not believed either: a replica may have sent it.
    result.what = Failed{.why = base::Unshared(acks.status()), .may_have_executed = true};
    return true;
  }
  auto* const held = std::get_if<StillHeld>(&result.what);
  if (held == nullptr) return true;
  if (acks->enough(renewal.acks)) {
    held->acked_by = acks->replicas;
    held->acked = true;
    return true;
  }
  if (in_time) return false;
  result.what = Failed{.why = absl::UnavailableError(TooFew(renewal, *acks)),
                       .may_have_executed = true,
                       .too_few = true};
  return true;
}

}  // namespace redlatch::internal
