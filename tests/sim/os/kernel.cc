#include "tests/sim/os/kernel.h"

#include <sys/single_threaded.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "src/base/atomic.h"
#include "tests/sim/os/objects.h"

namespace redlatch::sim {

Kernel* Kernel::current_ = nullptr;

Kernel::Kernel(Options options) : options_(options), random_(options.random) {
  __libc_single_threaded = 0;  // otherwise libstdc++ leaves out synchronisation
  current_ = this;
  base::interrupt = [] {
    // The world itself reads variables of a process in WithClockOf().
    if (Fibre::Current() == nullptr || current_->clock_of_ != nullptr) return;
    current_->Preempt(4 * current_->options_.preempt_one_in);
  };
}

Kernel::~Kernel() {
  descriptors_.clear();
  base::interrupt = nullptr;
  current_ = nullptr;
}

bool Kernel::Run(int64_t until, const std::function<bool()>& done) {
  while (!done()) {
    if (!Step(until)) return done();
  }
  return true;
}

bool Kernel::Step(int64_t until) {
  if (now_ >= until) return false;
  // These timers belong to waits that have ended otherwise.
  while (!timers_.empty() && timers_.top().fibre != nullptr &&
         (timers_.top().fibre->wait != timers_.top().wait || timers_.top().fibre->ready)) {
    timers_.pop();
  }
  if (!timers_.empty() && timers_.top().when <= now_) return RunTimer(until);
  if (ready_.empty()) return RunTimer(until);
  const size_t chosen = ready_.size() == 1 ? 0 : random_.Below(ready_.size());
  Fibre* const fibre = ready_[chosen];
  ready_[chosen] = ready_.back();
  ready_.pop_back();
  RunFibre(fibre);
  return true;
}

// Advances the time to the next timer.
bool Kernel::RunTimer(int64_t until) {
  if (timers_.empty() || timers_.top().when > until) {
    now_ = std::max(now_, until == kNever ? now_ : until);
    return false;
  }
  const Timer timer = timers_.top();
  timers_.pop();
  now_ = std::max(now_, timer.when);
  Note(timer.order);
  if (timer.fibre != nullptr) {
    timer.fibre->timed_out = true;
    MakeReady(timer.fibre);
    return true;
  }
  auto found = events_.find(timer.order);
  const std::function<void()> event = std::move(found->second);
  events_.erase(found);
  event();
  return true;
}

void Kernel::RunFibre(Fibre* fibre) {
  Note(fibre->number);
  fibre->ready = false;
  fibre->Enter();
  if (!fibre->ended) return;
  if (fibre->joiner != nullptr) Wake(fibre->joiner);
  if (fibre->detached) Forget(fibre);
}

void Kernel::Forget(Fibre* fibre) {
  std::erase(fibre->process->fibres, fibre);
  const auto found = std::find_if(fibres_.begin(), fibres_.end(),
                                  [&](const auto& each) { return each.get() == fibre; });
  // Timers may still refer to it.
  ++fibre->wait;
  std::swap(*found, fibres_.back());
}

void Kernel::At(int64_t when, std::function<void()> event) {
  events_.emplace(next_order_, std::move(event));
  timers_.push({.when = when, .order = next_order_++, .fibre = nullptr, .wait = 0});
}

Process* Kernel::NewProcess(std::string name) {
  return processes_.emplace_back(std::make_unique<Process>(std::move(name))).get();
}

Fibre* Kernel::Spawn(Process* process, std::function<void()> code) {
  Fibre* const fibre =
      fibres_.emplace_back(std::make_unique<Fibre>(process, std::move(code))).get();
  fibre->number = ++next_fibre_;
  process->fibres.push_back(fibre);
  MakeReady(fibre);
  return fibre;
}

void Kernel::MakeReady(Fibre* fibre) {
  fibre->ready = true;
  ++fibre->wait;
  const Process& process = *fibre->process;
  (process.paused || process.suspended ? fibre->process->held_back : ready_).push_back(fibre);
}

void Kernel::Wake(Fibre* fibre) {
  if (fibre->ready || fibre->ended || fibre->process->dead || fibre == Fibre::Current()) return;
  MakeReady(fibre);
}

bool Kernel::Wait(int64_t deadline) {
  const bool woken = Block(deadline);
  if (!woken) ++steps_;
  return woken;
}

bool Kernel::Block(int64_t deadline) {
  Fibre* const fibre = Fibre::Current();
  fibre->timed_out = false;
  fibre->deadline = deadline;
  if (deadline != kNever) {
    timers_.push({.when = deadline, .order = next_order_++, .fibre = fibre, .wait = fibre->wait});
  }
  fibre->Leave();
  return !fibre->timed_out;
}

void Kernel::Yield() {
  Fibre* const fibre = Fibre::Current();
  if (fibre == nullptr) return;
  MakeReady(fibre);
  fibre->Leave();
}

void Kernel::Stall(int64_t length) {
  const int64_t until = now_ + length;
  while (now_ < until) Block(until);
}

void Kernel::Preempt(uint64_t one_in) {
  if (!random_.OneIn(one_in)) return;
  const bool stalls = options_.longest_stall > 0 && Fibre::Current() != nullptr && random_.OneIn(4);
  stalls ? Stall(random_.Between(0, options_.longest_stall)) : Yield();
}

void Kernel::SystemCall() {
  now_ += 500;
  Preempt();
}

int64_t Kernel::DeadlineIn(int64_t duration) const {
  const double speed = Fibre::Current()->process->clock.speed;
  const auto real = static_cast<int64_t>(std::ceil(static_cast<double>(duration) / speed));
  return now_ + std::max<int64_t>(real, 0);
}

void Kernel::Pause(Process* process) {
  if (process->dead) return;
  process->paused = true;
  process->stopped_until = kNever;
  std::erase_if(ready_, [&](Fibre* fibre) {
    if (fibre->process != process) return false;
    process->held_back.push_back(fibre);
    return true;
  });
}

void Kernel::Resume(Process* process) {
  process->paused = false;
  if (process->suspended || process->dead) return;
  process->stopped_until = now_;
  for (Fibre* const fibre : std::exchange(process->held_back, {})) ready_.push_back(fibre);
}

void Kernel::Suspend(Process* process) {
  if (process->suspended || process->dead) return;
  const bool paused = process->paused;
  Pause(process);
  process->paused = paused;
  process->suspended = true;
  process->suspended_since = now_;
}

void Kernel::WakeFromSuspend(Process* process) {
  if (!process->suspended || process->dead) return;
  process->suspended = false;
  const int64_t slept = now_ - process->suspended_since;
  process->slept += slept;
  for (Fibre* const fibre : process->fibres) {
    if (fibre->ready && fibre->timed_out) {
      // Its timer ran while its time should have stood still.
      std::erase(process->held_back, fibre);
      fibre->ready = false;
      fibre->timed_out = false;
    }
    if (fibre->ready || fibre->ended || fibre->deadline == kNever) continue;
    fibre->deadline += slept;
    timers_.push(
        {.when = fibre->deadline, .order = next_order_++, .fibre = fibre, .wait = ++fibre->wait});
  }
  if (!process->paused) Resume(process);
}

void Kernel::Kill(Process* process) {
  if (process->dead) return;
  const bool holds = std::any_of(process->fibres.begin(), process->fibres.end(),
                                 [](Fibre* fibre) { return fibre->shared_mutexes > 0; });
  if (holds) return After(kMicro, [this, process] { Kill(process); });
  process->dead = true;
  std::erase_if(ready_, [&](Fibre* fibre) { return fibre->process == process; });
  std::erase_if(in_futex_, [&](Fibre* fibre) { return fibre->process == process; });
  process->held_back.clear();
  for (Fibre* const fibre : process->fibres) ++fibre->wait;
  for (size_t i = 0; i < descriptors_.size(); ++i) {
    if (descriptors_[i] != nullptr && descriptors_[i]->owner == process) {
      CloseDescriptor(kFirstDescriptor + static_cast<int>(i));
    }
  }
}

void Kernel::Describe(FILE* out) const {
  for (const auto& process : processes_) {
    for (const Fibre* const fibre : process->fibres) {
      if (fibre->ended) continue;
      fprintf(out, "%s, thread %lu %s: %s", process->name.c_str(), fibre->number,
              fibre->name.c_str(),
              fibre->ready              ? "ready"
              : fibre->futex != nullptr ? "futex"
                                        : "waits");
      if (!fibre->ready && fibre->deadline != kNever) {
        fprintf(out, " until %ld us", fibre->deadline / kMicro);
      }
      fprintf(out, "\n");
    }
  }
}

int Kernel::AddDescriptor(std::shared_ptr<Descriptor> descriptor) {
  descriptor->owner = Fibre::Current() != nullptr ? Fibre::Current()->process : nullptr;
  if (free_descriptors_.empty()) {
    descriptors_.push_back(std::move(descriptor));
    return kFirstDescriptor + static_cast<int>(descriptors_.size()) - 1;
  }
  const int fd = free_descriptors_.back();
  free_descriptors_.pop_back();
  descriptors_[static_cast<size_t>(fd - kFirstDescriptor)] = std::move(descriptor);
  return fd;
}

std::shared_ptr<Descriptor> Kernel::Find(int fd) const {
  const auto index = static_cast<size_t>(fd - kFirstDescriptor);
  return fd >= kFirstDescriptor && index < descriptors_.size() ? descriptors_[index] : nullptr;
}

bool Kernel::CloseDescriptor(int fd) {
  const std::shared_ptr<Descriptor> descriptor = Find(fd);
  if (descriptor == nullptr) return false;
  descriptors_[static_cast<size_t>(fd - kFirstDescriptor)] = nullptr;
  free_descriptors_.push_back(fd);
  descriptor->Closed();
  return true;
}

int Kernel::WakeFutex(const void* address, int count) {
  int woken = 0;
  for (size_t i = 0; i < in_futex_.size() && woken < count; ++i) {
    Fibre* const fibre = in_futex_[i];
    if (fibre->futex != address || fibre->ready) continue;
    Wake(fibre);
    ++woken;
  }
  return woken;
}

bool Kernel::WaitForFutex(const void* address, int64_t deadline) {
  Fibre* const fibre = Fibre::Current();
  fibre->futex = address;
  in_futex_.push_back(fibre);
  const bool woken = Wait(deadline);
  std::erase(in_futex_, fibre);
  fibre->futex = nullptr;
  return woken;
}

}  // namespace redlatch::sim
