#include "src/lock/background.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/parker.h"
#include "src/base/status.h"
#include "src/lock/client_core.h"
#include "src/lock/script_codec.h"
#include "src/lock/state/timing.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/wire/codec.h"

namespace redlatch::internal {
namespace {

// Renewals that are due within this time of each other are sent together if their leases allow it.
constexpr absl::Duration kTogether = absl::Milliseconds(250);

}  // namespace

void Background::Stop(base::Instant until) {
  core_.batches().EndBy(until);
  if (!worker_.Stop()) return;
  core_.unattended().Flush(until);  // what fails now is due below
  Serve(TakeDue());
  // A hold that was lost a moment ago is released at its local deadline, and not before: a renewal
  // that was in flight may have made the server's lease longer.
  const base::Instant soon = base::Now() + kLongestExpiryLead;
  if (NextDue() > soon) return;
  base::Parker().ParkUntil(soon);
  Serve(TakeDue());
}

base::Instant Background::NextDue() {
  const base::MutexLock lock(mu_);
  return timers_.next();
}

void Background::Schedule(Entry& entry, base::Instant moment) {
  bool first = false;
  {
    const base::MutexLock lock(mu_);
    first = timers_.SetEarlier(entry.request_timer, moment);
  }
  // If the thread cannot be started, Ready() says so when a lock is asked for.
  if (first) worker_.Wake();
}

void Background::MakeRoom(size_t entries) {
  const base::MutexLock lock(mu_);
  timers_.MakeRoom(entries);
}

void Background::Remove(Entry& entry) {
  const base::MutexLock lock(mu_);
  timers_.Remove(entry.request_timer);
}

void Background::Tell(Event event) {
  events_ |= event;
  if (event != kUnsubscribed || worker_.started()) worker_.Wake();
}

base::Instant Background::TakeTurn() {
  const base::Instant now = base::Now();
  if (core_.unattended().due() <= now) core_.unattended().Read();
  const unsigned events = events_.exchange(0);
  if ((events & kUnsubscribed) != 0) core_.Unsubscribed();
  if ((events & kTooManyCached) != 0) core_.GiveBackSurplus();
  if ((events & kReconnected) != 0) core_.Reconnected();
  if (describe_at_ <= now) {
    core_.Describe();
    describe_at_ = now + refresh_;
  }
  Serve(TakeDue());
  core_.batches().Post(core_.confirmed_releases().TakeDue());
  core_.batches().Post(core_.counts().TakeDue());
  core_.batches().Post(core_.observations().TakeDue());
  const base::Instant due =
      std::min({describe_at_, core_.confirmed_releases().due(), core_.counts().due(),
                core_.observations().due(), core_.unattended().due()});
  return std::min(due, NextDue());
}

std::vector<Entry*> Background::TakeDue() {
  std::vector<Entry*> due;
  const base::Instant now = base::Now();
  const base::MutexLock lock(mu_);
  if (now < timers_.next()) return due;
  while (Entry* const entry = timers_.PopDue(now + kTogether)) {
    LockTable::Refer(*entry);
    base::Append(due, entry);
  }
  return due;
}

void Background::Serve(const std::vector<Entry*>& due) {
  ScriptBatch::Jobs jobs;
  for (Entry* const entry : due) {
    core_.FeedWithRoom(*entry, [&](LockState& state, base::Instant now, Effects& effects) {
      state.Expire(now, effects);  // a hold that is over sends nothing
      while (std::optional<Request> request = state.NextRequest(now, kTogether)) {
        base::WithMemory([&] { jobs.push_back({.entry = entry, .request = *request}); });
        LockTable::Refer(*entry);
      }
    });
  }
  core_.batches().Post(std::move(jobs));
  for (Entry* const entry : due) core_.lock_table().Unrefer(*entry);
}

}  // namespace redlatch::internal
