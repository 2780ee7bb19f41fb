#include "src/engine/runtime/acked_renewals.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/base/thread.h"
#include "src/engine/protocol/wire.h"
#include "src/engine/runtime/core.h"

namespace redlatch::engine {
namespace {

constexpr uint32_t kAnswered = 1;
constexpr ptrdiff_t kLargestBatch = 512;
constexpr absl::Duration kShortestPatience = absl::Milliseconds(1);

const base::AcksWanted& Wanted(const Send& send) { return std::get<ToRenew>(send.what).acks; }

std::string Short(const base::AcksWanted& wanted, const base::Acks& acks, absl::Duration patience) {
  const std::string synced =
      wanted.fsync && !acks.synced ? "not on the server's disk yet, and " : "";
  return absl::StrCat(synced, acks.replicas, " of ", wanted.replicas,
                      wanted.replicas == 1 ? " replica has" : " replicas have",
                      " confirmed it within ", absl::FormatDuration(patience),
                      " (are they connected? see redlatch doctor)");
}

}  // namespace

void AckedRenewals::Stop() {
  std::thread thread;
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  changed_.SignalAll();
  if (thread.joinable()) thread.join();
}

bool AckedRenewals::Add(Job job) {
  const base::MutexLock lock(mu_);
  if (stopping_) return false;
  if (!thread_.joinable()) {
    try {
      thread_ = base::StartThread("redlatch-acks", [this] { Work(); });
    } catch (const std::system_error&) {
      return false;
    }
  }
  MachineTable::Refer(*job.entry);
  jobs_.push_back(std::move(job));
  changed_.SignalOne();
  return true;
}

Answer AckedRenewals::Run(Entry& entry, const Send& send) {
  Caller caller;
  caller.parker.Arm();
  if (!Add({.entry = &entry, .send = send, .caller = &caller})) {
    return {.what = Failed{.why = absl::UnavailableError("there is no thread to wait for replicas"),
                           .not_sent = true}};
  }
  while (caller.parker.ParkUntil(base::Instant::Infinite()) != kAnswered) {
  }
  return std::move(caller.answer);
}

void AckedRenewals::Post(Entry& entry, const Send& send) {
  Job job{.entry = &entry, .send = send, .caller = nullptr};
  if (Add(job)) return;
  MachineTable::Refer(entry);
  Finish(job, {.what = Failed{.why = absl::UnavailableError("the client ends"), .not_sent = true}});
}

void AckedRenewals::Work() {
  mu_.Lock();
  while (!stopping_ || !jobs_.empty()) {
    if (jobs_.empty()) {
      changed_.WaitUntil(mu_, base::Instant::Infinite());
      continue;
    }
    std::vector<Job> jobs = std::exchange(jobs_, {});
    mu_.Unlock();
    // Each WAIT is for those of its own number: one that never comes keeps no others waiting.
    const auto key = [](const Job& job) {
      return std::pair(Wanted(job.send).fsync, Wanted(job.send).replicas);
    };
    std::stable_sort(jobs.begin(), jobs.end(),
                     [&](const Job& a, const Job& b) { return key(a) < key(b); });
    for (auto begin = jobs.begin(); begin != jobs.end();) {
      const auto most = begin + std::min<ptrdiff_t>(kLargestBatch, jobs.end() - begin);
      const auto end =
          std::find_if(begin, most, [&](const Job& job) { return key(job) != key(*begin); });
      RunTogether(absl::MakeSpan(&*begin, static_cast<size_t>(end - begin)));
      begin = end;
    }
    mu_.Lock();
  }
  mu_.Unlock();
}

// Of equal wants, but for their patience, of which the shortest counts: nobody's lease may end
// while it is waited for another's.
void AckedRenewals::RunTogether(absl::Span<Job> jobs) {
  const base::AcksWanted wanted = Wanted(jobs.front().send);
  absl::Duration patience = absl::InfiniteDuration();
  std::vector<Request> requests;
  std::vector<redis::ScriptCall> calls;
  requests.reserve(jobs.size());  // calls refer to them
  const base::Instant now = base::Now();
  for (const Job& job : jobs) {
    const auto& renewal = std::get<ToRenew>(job.send.what);
    patience = std::min({patience, renewal.patience, (renewal.deadline - now) / 2});
    requests.emplace_back(core_.SubjectOf(*job.entry), job.send);
    calls.push_back(requests.back().call());
  }
  patience = std::max(patience, kShortestPatience);
  std::vector<absl::StatusOr<redis::Reply>> replies(calls.size());
  const absl::StatusOr<base::Acks> acks = core_.deployment().RunAcked(
      calls, wanted, patience, now + core_.command_timeout() + 2 * patience,
      absl::MakeSpan(replies));
  for (size_t i = 0; i < jobs.size(); ++i) {
    Answer answer = ReadAnswer(jobs[i].send, replies[i]);
    if (!acks.ok() && answer.failed() == nullptr) {
      // Nor is it believed that a hold is gone: who said so may be a replica.
      answer.what = Failed{.why = acks.status(), .may_have_executed = true};
    } else if (auto* const held = std::get_if<StillHeld>(&answer.what)) {
      if (acks->enough(wanted)) {
        held->acked_by = acks->replicas;
        held->acked = true;
      } else {
        answer.what = Failed{.why = absl::UnavailableError(Short(wanted, *acks, patience)),
                             .may_have_executed = true};
      }
    }
    Finish(jobs[i], std::move(answer));
  }
}

void AckedRenewals::Finish(Job& job, Answer answer) {
  if (job.caller != nullptr) {
    job.caller->answer = std::move(answer);
    job.caller->parker.Set(kAnswered);  // it is gone from here on
  } else {
    core_.Feed(*job.entry, [&](Bidder& machine, Effects& effects) {
      machine.OnAnswer(job.send, answer, base::Now(), effects);
    });
  }
  core_.machines().Unrefer(*job.entry);
}

}  // namespace redlatch::engine
