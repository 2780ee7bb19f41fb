#include "src/lock/renewer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/thread.h"
#include "src/lock/client_core.h"
#include "src/lock/script_codec.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/wire/reply.h"

namespace redlatch::internal {
namespace {

// Renewals due within so long of each other travel together, where their lease allows it.
constexpr absl::Duration kTogether = absl::Milliseconds(250);
constexpr size_t kLargestBatch = 512;
constexpr absl::Duration kShortestTimeout = absl::Milliseconds(50);

}  // namespace

void Renewer::Stop(base::Instant until) {
  std::thread thread;
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    stop_by_ = until;
    thread = std::move(thread_);
  }
  changed_.SignalAll();
  base::Join(thread);
}

void Renewer::Start() {
  if (thread_.joinable() || stopping_) return;
  // If it cannot, Ready() says so when a lock is asked for.
  static_cast<void>(base::TryStartThread(thread_, "redlatch-renew", [this] { Work(); }));
}

base::Instant Renewer::StopBy() {
  const base::MutexLock lock(mu_);
  return stop_by_;
}

bool Renewer::Ready() {
  const base::MutexLock lock(mu_);
  Start();
  return thread_.joinable() || stopping_;
}

void Renewer::Wake() {
  Ready();
  changed_.SignalOne();
}

void Renewer::Schedule(Entry& entry, base::Instant moment) {
  bool first = false;
  {
    const base::MutexLock lock(mu_);
    Start();
    first = timers_.SetEarlier(entry.request_timer, moment);
  }
  if (first) changed_.SignalOne();
}

void Renewer::MakeRoom(size_t entries) {
  const base::MutexLock lock(mu_);
  timers_.MakeRoom(entries);
}

void Renewer::Remove(Entry& entry) {
  const base::MutexLock lock(mu_);
  timers_.Remove(entry.request_timer);
}

void Renewer::Reconnected() {
  {
    const base::MutexLock lock(mu_);
    Start();
    reconnected_ = true;
  }
  changed_.SignalOne();
}

void Renewer::Unsubscribed() {
  {
    const base::MutexLock lock(mu_);
    unsubscribed_ = true;
    if (!thread_.joinable()) return;  // nothing has been due so far: it is told when it starts
  }
  changed_.SignalOne();
}

void Renewer::TooManyCached() {
  {
    const base::MutexLock lock(mu_);
    Start();
    too_many_cached_ = true;
  }
  changed_.SignalOne();
}

void Renewer::TakeDue(base::Instant now, std::vector<Entry*>& due) {
  if (now < timers_.next()) return;
  while (Entry* const entry = timers_.PopDue(now + kTogether)) {
    LockTable::Refer(*entry);
    due.push_back(entry);
  }
}

void Renewer::Work() {
  std::vector<Entry*> due;
  bool last = false;
  mu_.Lock();
  while (!last) {
    last = stopping_;
    const bool reconnected = std::exchange(reconnected_, false);
    const bool deafened = std::exchange(unsubscribed_, false);
    const bool crowded = std::exchange(too_many_cached_, false);
    if (last) {  // what fails then is due below
      mu_.Unlock();
      core_.outbox().Flush(StopBy());
      mu_.Lock();
    }
    const base::Instant now = base::Now();
    const bool describe = describe_at_ <= now && !last;
    if (describe) describe_at_ = now + refresh_;
    const base::Instant repeat_at = repeating_
                                        ? base::Instant::Infinite()
                                        : std::min(core_.counts().due(), core_.releases().due());
    const bool repeat = repeat_at <= now && !last;
    const base::Instant read_at = core_.outbox().due();
    const bool read = read_at <= now && !last;
    TakeDue(now, due);
    const bool told = reconnected || deafened || crowded;
    if (due.empty() && !told && !describe && !repeat && !read && !last) {
      changed_.WaitUntil(mu_, std::min({timers_.next(), describe_at_, repeat_at, read_at}));
      continue;
    }
    mu_.Unlock();
    if (read) core_.outbox().Read();
    if (deafened) core_.Unsubscribed();
    if (crowded) core_.GiveBackSurplus();
    if (reconnected) core_.Reconnected();
    if (describe) core_.Describe();
    Serve(due);
    if (repeat) Repeat();
    for (Entry* const entry : due) core_.machines().Unrefer(*entry);
    due.clear();
    mu_.Lock();
  }
  mu_.Unlock();
  lanes_.Finish();
}

void Renewer::Repeat() {
  std::vector<Job> jobs{{.entry = nullptr, .request = {}}};
  repeating_ = true;
  if (!core_.is_cluster() || !lanes_.Add("repeats", jobs)) Run(jobs);
}

void Renewer::Serve(const std::vector<Entry*>& due) {
  std::map<std::string, std::vector<Job>> jobs;  // by server
  for (Entry* const entry : due) {
    std::vector<Request> acked;
    core_.Feed(*entry, [&](LockState& state, Effects& effects) {
      const base::Instant now = base::Now();
      state.Expire(now, effects);  // a hold that is over sends nothing
      while (const std::optional<Request> request = state.NextRequest(now, kTogether)) {
        const auto* const renewal = std::get_if<RenewRequest>(&request->what);
        if (renewal != nullptr && renewal->acks.any()) {
          acked.push_back(*request);
          continue;
        }
        core_.Prepare(*entry, *request);
        LockTable::Refer(*entry);
        jobs[core_.server(entry->keys.main())].push_back({entry, *request});
      }
    });
    for (const Request& request : acked) core_.acked_renewals().Post(*entry, request);
  }
  for (auto& [server, its] : jobs) {
    if (!core_.is_cluster() || !lanes_.Add(server, its)) Run(its);
  }
}

void Renewer::Run(std::vector<Job>& jobs) {
  if (jobs.front().entry == nullptr) {
    core_.releases().Repeat();
    core_.counts().Repeat();
    repeating_ = false;
    Wake();
  } else {
    for (size_t begin = 0; begin < jobs.size(); begin += kLargestBatch) {
      RunBatch(absl::MakeConstSpan(jobs).subspan(begin, kLargestBatch));
    }
    for (const Job& job : jobs) core_.machines().Unrefer(*job.entry);
  }
  jobs.clear();
}

void Renewer::RunBatch(absl::Span<const Job> jobs) {
  const base::Instant now = base::Now();
  base::Instant until = now + (core_.is_quorum() ? kShortestTimeout : core_.command_timeout());
  std::vector<RequestRunner::Item> items;
  for (const Job& job : jobs) {
    const base::Instant its = now + std::max(kShortestTimeout, job.request.lease / 3);
    items.push_back({.subject = core_.SubjectOf(*job.entry),
                     .request = job.request,
                     .until = std::min(its, now + core_.command_timeout())});
    // At a quorum each request has a deadline of its own: the shortest must not end the others'
    // round.
    until = core_.is_quorum() ? std::max(until, items.back().until) : std::min(until, its);
  }
  std::vector<Result> results(jobs.size());
  core_.runner().RunBatch(items, std::min(until, StopBy()), absl::MakeSpan(results));
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto& [entry, request] = jobs[i];
    const Result& result = results[i];
    core_.NoteAnswer(*entry, request, result);
    core_.Feed(*entry, [&request = request, &result](LockState& state, Effects& effects) {
      state.OnResult(request, result, base::Now(), effects);
    });
  }
}

}  // namespace redlatch::internal
