#include "src/lock/background.h"

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
#include "src/redis/wire/codec.h"

namespace redlatch::internal {
namespace {

// Renewals that are due within this time of each other are sent together if their leases allow it.
constexpr absl::Duration kTogether = absl::Milliseconds(250);

}  // namespace

void Background::Stop(base::Instant until) {
  std::thread thread;
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    stop_by_ = until;
    core_.batches().EndBy(until);
    thread = std::move(thread_);
  }
  changed_.SignalAll();
  base::Join(thread);
}

void Background::Start() {
  if (thread_.joinable() || stopping_) return;
  // If this fails, Ready() reports it when a lock is asked for.
  static_cast<void>(base::TryStartThread(thread_, "redlatch-renew", [this] { Work(); }));
}

bool Background::Ready() {
  const base::MutexLock lock(mu_);
  Start();
  return thread_.joinable() || stopping_;
}

void Background::Wake() {
  Ready();
  changed_.SignalOne();
}

void Background::Schedule(Entry& entry, base::Instant moment) {
  bool first = false;
  {
    const base::MutexLock lock(mu_);
    Start();
    first = timers_.SetEarlier(entry.request_timer, moment);
  }
  if (first) changed_.SignalOne();
}

void Background::MakeRoom(size_t entries) {
  const base::MutexLock lock(mu_);
  timers_.MakeRoom(entries);
}

void Background::Remove(Entry& entry) {
  const base::MutexLock lock(mu_);
  timers_.Remove(entry.request_timer);
}

void Background::Reconnected() {
  {
    const base::MutexLock lock(mu_);
    Start();
    reconnected_ = true;
  }
  changed_.SignalOne();
}

void Background::Unsubscribed() {
  {
    const base::MutexLock lock(mu_);
    unsubscribed_ = true;
    if (!thread_.joinable()) return;  // the thread checks this when it starts
  }
  changed_.SignalOne();
}

void Background::TooManyCached() {
  {
    const base::MutexLock lock(mu_);
    Start();
    too_many_cached_ = true;
  }
  changed_.SignalOne();
}

void Background::TakeDue(base::Instant now, std::vector<Entry*>& due) {
  if (now < timers_.next()) return;
  while (Entry* const entry = timers_.PopDue(now + kTogether)) {
    LockTable::Refer(*entry);
    due.push_back(entry);
  }
}

void Background::Work() {
  std::vector<Entry*> due;
  bool last = false;
  mu_.Lock();
  while (!last) {
    last = stopping_;
    const bool reconnected = std::exchange(reconnected_, false);
    const bool unsubscribed = std::exchange(unsubscribed_, false);
    const bool too_many_cached = std::exchange(too_many_cached_, false);
    const base::Instant stop_by = stop_by_;
    if (last) {  // what fails then is due below
      mu_.Unlock();
      core_.unattended().Flush(stop_by);
      mu_.Lock();
    }
    const base::Instant now = base::Now();
    const bool describe = describe_at_ <= now && !last;
    if (describe) describe_at_ = now + refresh_;
    const base::Instant repeat_at = repeating_
                                        ? base::Instant::Infinite()
                                        : std::min(core_.counts().due(), core_.releases().due());
    const bool repeat = repeat_at <= now && !last;
    const base::Instant read_at = core_.unattended().due();
    const bool read = read_at <= now && !last;
    TakeDue(now, due);
    const bool told = reconnected || unsubscribed || too_many_cached;
    if (due.empty() && !told && !describe && !repeat && !read && !last) {
      changed_.WaitUntil(mu_, std::min({timers_.next(), describe_at_, repeat_at, read_at}));
      continue;
    }
    mu_.Unlock();
    if (read) core_.unattended().Read();
    if (unsubscribed) core_.Unsubscribed();
    if (too_many_cached) core_.GiveBackSurplus();
    if (reconnected) core_.Reconnected();
    if (describe) core_.Describe();
    Serve(due);
    if (repeat) Repeat();
    for (Entry* const entry : due) core_.lock_table().Unrefer(*entry);
    due.clear();
    mu_.Lock();
  }
  mu_.Unlock();
}

// In a cluster, each server has a lane: one that hangs delays no renewals at others.
void Background::Repeat() {
  repeating_ = true;
  ScriptBatch::Jobs jobs;
  jobs.emplace_back().then = [this](const Result&) {
    core_.releases().Repeat();
    core_.counts().Repeat();
    repeating_ = false;
    Wake();
  };
  core_.batches().PostAll("repeats", std::move(jobs));
}

void Background::Serve(const std::vector<Entry*>& due) {
  std::map<std::string, ScriptBatch::Jobs> jobs;  // by server
  for (Entry* const entry : due) {
    std::vector<Request> to_confirm;
    core_.Feed(*entry, [&](LockState& state, Effects& effects) {
      const base::Instant now = base::Now();
      state.Expire(now, effects);  // a hold that is over sends nothing
      while (const std::optional<Request> request = state.NextRequest(now, kTogether)) {
        const auto* const renewal = std::get_if<RenewRequest>(&request->what);
        if (renewal != nullptr && renewal->acks.any()) {
          to_confirm.push_back(*request);
          continue;
        }
        core_.Prepare(*entry, *request);
        LockTable::Refer(*entry);
        jobs[core_.server(entry->keys.main())].push_back({.entry = entry, .request = *request});
      }
    });
    for (const Request& request : to_confirm) core_.batches().Post(*entry, request);
  }
  for (auto& [server, its] : jobs) core_.batches().PostAll(server, std::move(its));
}

}  // namespace redlatch::internal
