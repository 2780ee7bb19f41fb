#include "src/engine/runtime/acked_renewals.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/base/parker.h"
#include "src/base/status.h"
#include "src/engine/protocol/wire.h"
#include "src/engine/runtime/core.h"
#include "src/redis/wire/errors.h"

namespace redlatch::engine {
namespace {

constexpr uint32_t kAnswered = 1;
constexpr ptrdiff_t kMostAckedAtOnce = 512;
constexpr absl::Duration kShortestPatience = absl::Milliseconds(1);
constexpr absl::Duration kLongestSlice = absl::Seconds(1);
// Each try writes anew, and what syncs its disk each second would always be one try behind.
constexpr absl::Duration kSliceOfFsync = absl::Seconds(2);

const ToRenew& RenewalOf(const Send& send) { return std::get<ToRenew>(send.what); }

std::string Short(const ToRenew& renewal, const base::Acks& acks) {
  const base::AcksWanted& wanted = renewal.acks;
  const std::string synced =
      wanted.fsync && !acks.synced ? "not on the server's disk yet, and " : "";
  return absl::StrCat(synced, acks.replicas, " of ", wanted.replicas,
                      wanted.replicas == 1 ? " replica has" : " replicas have",
                      " confirmed it within ", absl::FormatDuration(renewal.patience),
                      " (are they connected? see redlatch doctor)");
}

Answer NotRun(absl::Status why) {
  return {.what = Failed{.why = std::move(why), .not_sent = true}};
}

}  // namespace

void AckedRenewals::Stop() {
  stopping_ = true;
  lanes_.Finish();
}

Answer AckedRenewals::Run(Entry& entry, const Send& send, base::Instant until) noexcept {
  struct Caller {
    Answer answer;
    base::Parker parker;
  };
  const auto caller = std::make_shared<Caller>();
  Post(
      entry, send,
      [caller](Answer answer) {
        caller->answer = std::move(answer);
        caller->parker.Set(kAnswered);
      },
      until);
  if (caller->parker.ParkUntil(until) == kAnswered) return std::move(caller->answer);
  return Unanswered();
}

void AckedRenewals::Post(Entry& entry, const Send& send, Then then, base::Instant until) {
  MachineTable::Refer(entry);
  Jobs jobs;
  Job& job = jobs.emplace_back(Job{&entry, send, std::move(then), until});
  if (RenewalOf(send).acks.fsync) job.slice = kSliceOfFsync;
  // Each server has replicas of its own.
  if (!stopping_ && lanes_.Add(core_.server(entry.keys.main()), jobs)) return;
  Finish(job, NotRun(base::NoThread()));
}

void AckedRenewals::RunEach(Jobs& jobs) {
  const base::Instant now = base::Now();
  const auto late = std::stable_partition(jobs.begin(), jobs.end(), [&](const Job& job) {
    return now < job.wanted_until && !stopping_;
  });
  for (auto job = late; job != jobs.end(); ++job) {
    Finish(*job,
           NotRun(absl::UnavailableError(
               stopping_ ? "the client ends"
                         : "it could not be confirmed in time: other holds were in the way")));
  }
  jobs.erase(late, jobs.end());
  for (Job& job : jobs) {
    if (job.until != base::Instant()) continue;
    // It may use at most half of what is left of the hold when its first turn begins.
    const ToRenew& renewal = RenewalOf(job.send);
    job.until = now + std::clamp((renewal.deadline - now) / 2, kShortestPatience,
                                 std::max(renewal.patience, kShortestPatience));
  }
  const auto key = [](const Job& job) {
    const base::AcksWanted& wanted = RenewalOf(job.send).acks;
    return std::pair(wanted.fsync, wanted.replicas);
  };
  std::stable_sort(jobs.begin(), jobs.end(),
                   [&](const Job& a, const Job& b) { return key(a) < key(b); });
  Jobs again;
  for (auto begin = jobs.begin(); begin != jobs.end();) {
    const auto end =
        std::find_if(begin, jobs.end(), [&](const Job& job) { return key(job) != key(*begin); });
    const auto batch_end = begin + std::min<ptrdiff_t>(kMostAckedAtOnce, end - begin);
    // Behind those that have not had their turn.
    const auto rest = std::vector<Job>(std::move_iterator(batch_end), std::move_iterator(end));
    again.insert(again.end(), rest.begin(), rest.end());
    RunTogether(absl::MakeSpan(&*begin, static_cast<size_t>(batch_end - begin)), again);
    begin = end;
  }
  jobs = std::move(again);
}

// Those that are run again are sent again, since the connection may be another then; their
// deadlines count from the first time.
void AckedRenewals::RunTogether(absl::Span<Job> jobs, Jobs& again) {
  const base::AcksWanted wanted = RenewalOf(jobs.front().send).acks;
  std::vector<Request> requests;
  std::vector<redis::ScriptCall> calls;
  requests.reserve(jobs.size());  // calls refer to them
  const base::Instant now = base::Now();
  absl::Duration patience = kShortestPatience;
  for (const Job& job : jobs) {
    patience = std::max(patience, std::min(job.slice, job.until - now));
    requests.emplace_back(core_.SubjectOf(*job.entry), job.send);
    calls.push_back(requests.back().call());
  }
  std::vector<absl::StatusOr<redis::Reply>> replies(calls.size());
  const absl::StatusOr<base::Acks> acks = core_.deployment().RunAcked(
      calls, wanted, patience, now + patience + core_.command_timeout(), absl::MakeSpan(replies));
  const base::Instant then = base::Now();
  for (size_t i = 0; i < jobs.size(); ++i) {
    Job& job = jobs[i];
    Answer answer = ReadAnswer(job.send, replies[i]);
    auto* const held = std::get_if<StillHeld>(&answer.what);
    // As where a slot moves.
    if (redis::RefusedForNow(replies[i].status()) && then < job.until) {
      again.push_back(std::move(job));
      continue;
    }
    if (!acks.ok() && answer.failed() == nullptr) {
      // Nor is it believed that a hold is gone: who said so may be a replica.
      answer.what = Failed{.why = acks.status(), .may_have_executed = true};
    } else if (held != nullptr && acks->enough(wanted)) {
      held->acked_by = acks->replicas;
      held->acked = true;
    } else if (held != nullptr && then < job.until) {
      if (!wanted.fsync) job.slice = std::min(2 * patience, kLongestSlice);
      again.push_back(std::move(job));
      continue;
    } else if (held != nullptr) {
      answer.what = Failed{.why = absl::UnavailableError(Short(RenewalOf(job.send), *acks)),
                           .may_have_executed = true,
                           .too_few = true};
    }
    Finish(job, std::move(answer));
  }
}

void AckedRenewals::Finish(Job& job, Answer answer) {
  if (job.then) {
    job.then(std::move(answer));
  } else {
    core_.Feed(*job.entry, [&](Bidder& machine, Effects& effects) {
      machine.OnAnswer(job.send, answer, base::Now(), effects);
    });
  }
  core_.machines().Unrefer(*job.entry);
}

}  // namespace redlatch::engine
