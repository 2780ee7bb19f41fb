#include "src/engine/notifier.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "src/engine/core.h"

namespace redlatch::engine {
namespace {

constexpr absl::Duration kToItself = absl::Milliseconds(10);
constexpr absl::Duration kPatience = absl::Seconds(1);
// That run at the same time, each on a thread of its own, where a user's code does not return.
constexpr int kMostStopTokens = 64;
constexpr int kMostCallbacks = 8;
// Beyond so many that wait, notices are dropped: their observer does not keep up.
constexpr size_t kMostWaiting = 10000;

// Whose user's code this thread runs.
thread_local const void* running_for = nullptr;

}  // namespace

struct Notifier::State {
  explicit State(Core& owner) : core(owner) {}

  struct Lane {  // what is run in turn
    std::deque<std::function<void()>> waiting;
    int running = 0;
    base::Instant since;  // the latest of those

    // When the first that waits may run.
    base::Instant Due(absl::Duration to_itself, int most) const {
      if (waiting.empty() || running >= most) return base::Instant::Infinite();
      return running == 0 ? base::Instant() : since + to_itself;
    }
  };

  base::Instant Due(const Lane& lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return &lane == &stop_tokens ? lane.Due(absl::ZeroDuration(), kMostStopTokens)
                                 : lane.Due(kToItself, kMostCallbacks);
  }
  Lane& Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return Due(stop_tokens) <= Due(callbacks) ? stop_tokens : callbacks;
  }
  int running() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return stop_tokens.running + callbacks.running;
  }

  void StartThread(const std::shared_ptr<State>& self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    try {
      ++threads;
      std::thread([self] { Work(self); }).detach();
    } catch (const std::system_error&) {
      --threads;  // there is no thread to be had: those there are do what they can
    }
  }

  Core& core;
  base::Mutex mu;
  base::CondVar changed;
  TimerHeap timers ABSL_GUARDED_BY(mu);
  Lane stop_tokens ABSL_GUARDED_BY(mu);  // no callback holds them up
  Lane callbacks ABSL_GUARDED_BY(mu);
  int threads ABSL_GUARDED_BY(mu) = 0;
  int standing_by ABSL_GUARDED_BY(mu) = 0;
  bool led ABSL_GUARDED_BY(mu) = false;
  bool stopping ABSL_GUARDED_BY(mu) = false;
};

Notifier::Notifier(Core& core) : state_(std::make_shared<State>(core)) {}

void Notifier::Stop() {
  const base::MutexLock lock(state_->mu);
  state_->stopping = true;
  state_->changed.SignalAll();
  const base::Instant until = base::Now() + kPatience;
  // The user's code may have dropped the last handle of the client, and wait for this.
  const int own = running_for == state_.get() ? 1 : 0;
  while (state_->threads > state_->running() || (state_->running() > own && base::Now() < until)) {
    state_->changed.WaitUntil(state_->mu, base::Now() + kToItself);
  }
}

void Notifier::Watch(Entry& entry, base::Instant moment) {
  const base::MutexLock lock(state_->mu);
  if (state_->threads == 0 && !state_->stopping) state_->StartThread(state_);
  if (state_->timers.SetEarlier(entry.expiry_timer, moment)) state_->changed.SignalAll();
}

void Notifier::Remove(Entry& entry) {
  const base::MutexLock lock(state_->mu);
  state_->timers.Remove(entry.expiry_timer);
}

void Notifier::Post(Urgency urgency, std::function<void()> code) {
  const base::MutexLock lock(state_->mu);
  if (state_->threads == 0 && !state_->stopping) state_->StartThread(state_);
  State::Lane& lane = urgency == Urgency::kStopToken ? state_->stop_tokens : state_->callbacks;
  if (urgency == Urgency::kNotice && lane.waiting.size() >= kMostWaiting) return;
  lane.waiting.push_back(std::move(code));
  state_->changed.SignalAll();
}

void Notifier::Work(const std::shared_ptr<State>& shared) {
  State& state = *shared;
  state.mu.Lock();
  while (!state.stopping) {
    if (state.led) {
      ++state.standing_by;
      state.changed.Wait(state.mu);
      --state.standing_by;
      continue;
    }
    const base::Instant now = base::Now();
    if (Entry* const entry = state.timers.PopDue(now)) {
      Table::Refer(*entry);
      state.led = true;
      state.mu.Unlock();
      state.core.Expire(*entry);
      state.mu.Lock();
      state.led = false;
      continue;
    }
    State::Lane& lane = state.Next();
    if (const base::Instant due = state.Due(lane); now < due) {
      state.led = true;
      state.changed.WaitUntil(state.mu, std::min(state.timers.next(), due));
      state.led = false;
      continue;
    }
    std::function<void()> code = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    ++lane.running;
    lane.since = now;
    if (state.standing_by == 0) state.StartThread(shared);
    state.changed.SignalAll();
    state.mu.Unlock();
    running_for = &state;
    code();
    code = nullptr;
    running_for = nullptr;
    state.mu.Lock();
    --lane.running;
    state.changed.SignalAll();  // a place is free
  }
  --state.threads;
  state.changed.SignalAll();
  state.mu.Unlock();
}

}  // namespace redlatch::engine
