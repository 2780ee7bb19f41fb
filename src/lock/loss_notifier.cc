#include "src/lock/loss_notifier.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

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

struct LossNotifier::State {
  explicit State(ClientCore& owner) : core(owner) {}

  struct Queue {  // pieces of code that run in order
    // How long the latest piece runs alone; then the next one runs beside it.
    const absl::Duration to_itself;
    const int most;  // pieces that run at the same time if a user's code does not return
    std::deque<std::function<void()>> waiting = {};
    int running = 0;
    uint64_t latest = 0;  // the number of pieces that began
    bool latest_runs = false;
    base::Instant latest_began = {};

    bool open() const { return !waiting.empty() && running < most; }
    // When the first waiting piece may run.
    base::Instant Due() const {
      if (!open()) return base::Instant::Infinite();
      return latest_runs ? latest_began + to_itself : base::Instant();
    }
  };

  Queue& Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return stop_tokens.open() ? stop_tokens : callbacks;
  }
  int running() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return stop_tokens.running + callbacks.running;
  }

  // Starts a thread if all existing ones run users' code.
  void EnsureLeader(const std::shared_ptr<State>& self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (threads > running() || stopping) return;
    std::thread thread;
    // If no thread can be started, the existing ones do what they can.
    if (!base::TryStartThread(thread, "redlatch-notify", [self] { Work(self); })) return;
    thread.detach();
    ++threads;
  }

  ClientCore& core;
  base::Mutex mu;
  base::CondVar changed;  // for the leader, and Stop()
  base::CondVar led_by_none;
  TimerHeap timers ABSL_GUARDED_BY(mu);
  // Stop tokens are many and urgent: until one is requested, even a thread that polls it is not
  // told.
  Queue stop_tokens ABSL_GUARDED_BY(mu){.to_itself = absl::Milliseconds(1), .most = 64};
  Queue callbacks ABSL_GUARDED_BY(mu){.to_itself = absl::Milliseconds(10), .most = 8};
  int threads ABSL_GUARDED_BY(mu) = 0;
  bool has_spare ABSL_GUARDED_BY(mu) = false;  // a thread waits to lead
  bool led ABSL_GUARDED_BY(mu) = false;
  bool stopping ABSL_GUARDED_BY(mu) = false;
};

LossNotifier::LossNotifier(ClientCore& core) : state_(std::make_shared<State>(core)) {}

void LossNotifier::Stop() {
  const base::MutexLock lock(state_->mu);
  state_->stopping = true;
  state_->changed.SignalAll();
  state_->led_by_none.SignalAll();
  const base::Instant until = base::Now() + kStopTimeout;
  // The user's code may have dropped the last handle of the client, and be waiting for this.
  const int own = running_for == state_.get() ? 1 : 0;
  while (state_->threads > state_->running() || (state_->running() > own && base::Now() < until)) {
    state_->changed.WaitUntil(state_->mu, base::Now() + kCheckEach);
  }
}

bool LossNotifier::Ready() {
  const base::MutexLock lock(state_->mu);
  state_->EnsureLeader(state_);
  return state_->threads > 0 || state_->stopping;
}

void LossNotifier::Watch(Entry& entry, base::Instant moment) {
  const base::MutexLock lock(state_->mu);
  state_->EnsureLeader(state_);
  if (state_->timers.SetEarlier(entry.expiry_timer, moment)) state_->changed.SignalAll();
}

void LossNotifier::MakeRoom(size_t entries) {
  const base::MutexLock lock(state_->mu);
  state_->timers.MakeRoom(entries);
}

void LossNotifier::Remove(Entry& entry) {
  const base::MutexLock lock(state_->mu);
  state_->timers.Remove(entry.expiry_timer);
}

void LossNotifier::Post(Urgency urgency, std::function<void()> code) {
  const base::MutexLock lock(state_->mu);
  state_->EnsureLeader(state_);
  State::Queue& queue = urgency == Urgency::kStopToken ? state_->stop_tokens : state_->callbacks;
  if (urgency == Urgency::kNotice && queue.waiting.size() >= kMostWaiting) return;
  queue.waiting.push_back(std::move(code));
  state_->changed.SignalAll();
}

void LossNotifier::Work(const std::shared_ptr<State>& shared) {
  State& state = *shared;
  state.mu.Lock();
  while (!state.stopping) {
    if (state.led) {
      if (state.has_spare) break;  // one spare thread is enough
      state.has_spare = true;
      state.led_by_none.Wait(state.mu);
      state.has_spare = false;
      continue;
    }
    const base::Instant now = base::Now();
    if (Entry* const entry = state.timers.PopDue(now)) {
      LockTable::Refer(*entry);
      state.led = true;
      state.mu.Unlock();
      state.core.Expire(*entry);
      state.mu.Lock();
      state.led = false;
      continue;
    }
    State::Queue& queue = state.Next();
    if (const base::Instant due = queue.Due(); now < due) {
      state.led = true;
      state.changed.WaitUntil(state.mu, std::min(state.timers.next(), due));
      state.led = false;
      continue;
    }
    std::function<void()> code = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.running;
    queue.latest_runs = true;
    queue.latest_began = now;
    const uint64_t number = ++queue.latest;
    state.EnsureLeader(shared);
    state.led_by_none.SignalOne();
    state.mu.Unlock();
    running_for = &state;
    code();
    code = nullptr;
    running_for = nullptr;
    state.mu.Lock();
    --queue.running;
    if (queue.latest == number) queue.latest_runs = false;
    state.changed.SignalAll();  // a slot is free
  }
  --state.threads;
  state.changed.SignalAll();
  state.mu.Unlock();
}

}  // namespace redlatch::internal
