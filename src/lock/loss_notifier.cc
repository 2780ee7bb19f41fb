#include "src/lock/loss_notifier.h"

#include <algorithm>
#include <new>
#include <utility>

#include "src/base/thread.h"
#include "src/lock/client_core.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kStopTimeout = absl::Seconds(1);
constexpr absl::Duration kCheckEach = absl::Milliseconds(10);
// If more than this wait, notices are dropped: their observer does not keep up.
constexpr size_t kMostWaiting = 10000;

// The notifier whose user's code this thread runs.
thread_local const void* running_for = nullptr;

}  // namespace

// If no thread can be started, the existing ones do what they can.
void LossNotifier::EnsureLeader() try {
  if (threads_ > running() || stopping_) return;
  const auto own = std::make_shared<std::thread>();
  const auto work = [self = shared_from_this(), own] { self->Work(*own); };
  if (base::TryStartThread(*own, "redlatch-notify", work)) ++threads_;
} catch (const std::bad_alloc&) {
}

void LossNotifier::Stop() {
  mu_.Lock();
  stopping_ = true;
  changed_.SignalAll();
  led_by_none_.SignalAll();
  const base::Instant until = base::Now() + kStopTimeout;
  // The user's code may have dropped the last handle of the client, and be waiting for this.
  const int own = running_for == this ? 1 : 0;
  while (threads_ > running() || (running() > own && base::Now() < until)) {
    changed_.WaitUntil(mu_, base::Now() + kCheckEach);
  }
  std::thread last = std::move(last_);
  mu_.Unlock();
  base::Join(last);
}

bool LossNotifier::Ready() {
  const base::MutexLock lock(mu_);
  EnsureLeader();
  return threads_ > 0 || stopping_;
}

void LossNotifier::Watch(Entry& entry, base::Instant moment) {
  const base::MutexLock lock(mu_);
  EnsureLeader();
  if (timers_.SetEarlier(entry.expiry_timer, moment)) changed_.SignalAll();
}

void LossNotifier::MakeRoom(size_t entries) {
  const base::MutexLock lock(mu_);
  timers_.MakeRoom(entries);
}

void LossNotifier::Remove(Entry& entry) {
  const base::MutexLock lock(mu_);
  timers_.Remove(entry.expiry_timer);
}

void LossNotifier::Post(Urgency urgency, std::function<void()> code) {
  const base::MutexLock lock(mu_);
  EnsureLeader();
  Queue& queue = urgency == Urgency::kStopToken ? stop_tokens_ : callbacks_;
  if (urgency == Urgency::kNotice && queue.waiting.size() >= kMostWaiting) return;
  queue.waiting.push_back(std::move(code));
  changed_.SignalAll();
}

void LossNotifier::Work(std::thread& own) {
  mu_.Lock();
  while (!stopping_) {
    if (led_) {
      if (has_spare_) break;  // one spare thread is enough
      has_spare_ = true;
      led_by_none_.Wait(mu_);
      has_spare_ = false;
      continue;
    }
    const base::Instant now = base::Now();
    if (Entry* const entry = timers_.PopDue(now)) {
      LockTable::Refer(*entry);
      led_ = true;
      mu_.Unlock();
      core_.Expire(*entry);
      mu_.Lock();
      led_ = false;
      continue;
    }
    Queue& queue = stop_tokens_.open() ? stop_tokens_ : callbacks_;
    if (const base::Instant due = queue.Due(); now < due) {
      led_ = true;
      changed_.WaitUntil(mu_, std::min(timers_.next(), due));
      led_ = false;
    } else {
      RunFirst(queue, now);
    }
  }
  --threads_;
  std::swap(own, last_);
  changed_.SignalAll();
  mu_.Unlock();
  base::Join(own);  // the one that ended before
}

void LossNotifier::RunFirst(Queue& queue, base::Instant now) {
  std::function<void()> code = std::move(queue.waiting.front());
  queue.waiting.pop_front();
  ++queue.running;
  queue.latest_runs = true;
  queue.latest_began = now;
  const uint64_t number = ++queue.latest;
  EnsureLeader();
  led_by_none_.SignalOne();
  mu_.Unlock();
  running_for = this;
  code();
  code = nullptr;
  running_for = nullptr;
  mu_.Lock();
  --queue.running;
  if (queue.latest == number) queue.latest_runs = false;
  changed_.SignalAll();  // a slot is free
}

}  // namespace redlatch::internal
