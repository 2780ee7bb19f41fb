#include "src/lock/acked_renewals.h"

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
#include "src/lock/client_core.h"
#include "src/lock/script_codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

constexpr uint32_t kAnswered = 1;
constexpr ptrdiff_t kMostAckedAtOnce = 512;
constexpr absl::Duration kShortestPatience = absl::Milliseconds(1);
constexpr absl::Duration kLongestSlice = absl::Seconds(1);
// Each try writes anew, and what syncs its disk each second would always be one try behind.
constexpr absl::Duration kSliceOfFsync = absl::Seconds(2);

const RenewRequest& RenewalOf(const Request& request) {
  return std::get<RenewRequest>(request.what);
}

std::string Short(const RenewRequest& renewal, const base::Acks& acks) {
  const base::AcksWanted& recalled = renewal.acks;
  const std::string synced =
      recalled.fsync && !acks.synced ? "not on the server's disk yet, and " : "";
  return absl::StrCat(synced, acks.replicas, " of ", recalled.replicas,
                      recalled.replicas == 1 ? " replica has" : " replicas have",
                      " confirmed it within ", absl::FormatDuration(renewal.patience),
                      " (are they connected? see redlatch doctor)");
}

Result NotRun(absl::Status why) {
  return {.what = Failed{.why = std::move(why), .not_sent = true}};
}

}  // namespace

void AckedRenewals::Stop() {
  stopping_ = true;
  lanes_.Finish();
}

Result AckedRenewals::Run(Entry& entry, const Request& request, base::Instant until) noexcept {
  struct Caller {
    Result result;
    base::Parker parker;
  };
  const auto caller = std::make_shared<Caller>();
  Post(
      entry, request,
      [caller](Result result) {
        caller->result = std::move(result);
        caller->parker.Set(kAnswered);
      },
      until);
  if (caller->parker.ParkUntil(until) == kAnswered) return std::move(caller->result);
  return NoResult();
}

void AckedRenewals::Post(Entry& entry, const Request& request, Then then, base::Instant until) {
  LockTable::Refer(entry);
  Jobs jobs;
  Job& job = jobs.emplace_back(Job{&entry, request, std::move(then), until});
  if (RenewalOf(request).acks.fsync) job.slice = kSliceOfFsync;
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
    const RenewRequest& renewal = RenewalOf(job.request);
    job.until = now + std::clamp((renewal.deadline - now) / 2, kShortestPatience,
                                 std::max(renewal.patience, kShortestPatience));
  }
  const auto key = [](const Job& job) {
    const base::AcksWanted& recalled = RenewalOf(job.request).acks;
    return std::pair(recalled.fsync, recalled.replicas);
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
  const base::AcksWanted recalled = RenewalOf(jobs.front().request).acks;
  std::vector<EncodedRequest> requests;
  std::vector<redis::ScriptCall> calls;
  requests.reserve(jobs.size());  // calls refer to them
  const base::Instant now = base::Now();
  absl::Duration patience = kShortestPatience;
  for (const Job& job : jobs) {
    patience = std::max(patience, std::min(job.slice, job.until - now));
    requests.emplace_back(core_.SubjectOf(*job.entry), job.request);
    calls.push_back(requests.back().call());
  }
  std::vector<absl::StatusOr<redis::Reply>> replies(calls.size());
  const absl::StatusOr<base::Acks> acks = core_.server_group().RunAcked(
      calls, recalled, patience, now + patience + core_.command_timeout(), absl::MakeSpan(replies));
  const base::Instant then = base::Now();
  for (size_t i = 0; i < jobs.size(); ++i) {
    Job& job = jobs[i];
    Result result = ReadResult(job.request, replies[i]);
    auto* const held = std::get_if<StillHeld>(&result.what);
    // As where a slot moves.
    if (redis::RefusedForNow(replies[i].status()) && then < job.until) {
      again.push_back(std::move(job));
      continue;
    }
    if (!acks.ok() && result.failed() == nullptr) {
      // Nor is it believed that a hold is gone: who said so may be a replica.
      result.what = Failed{.why = acks.status(), .may_have_executed = true};
    } else if (held != nullptr && acks->enough(recalled)) {
      held->acked_by = acks->replicas;
      held->acked = true;
    } else if (held != nullptr && then < job.until) {
      if (!recalled.fsync) job.slice = std::min(2 * patience, kLongestSlice);
      again.push_back(std::move(job));
      continue;
    } else if (held != nullptr) {
      result.what = Failed{.why = absl::UnavailableError(Short(RenewalOf(job.request), *acks)),
                           .may_have_executed = true,
                           .too_few = true};
    }
    Finish(job, std::move(result));
  }
}

void AckedRenewals::Finish(Job& job, Result result) {
  if (job.then) {
    job.then(std::move(result));
  } else {
    core_.Feed(*job.entry, [&](LockState& state, Effects& effects) {
      state.OnResult(job.request, result, base::Now(), effects);
    });
  }
  core_.machines().Unrefer(*job.entry);
}

}  // namespace redlatch::internal
