// Acquisition: one thread's way through the machine, from its call to its outcome.
#include <algorithm>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

#include "src/engine/handle.h"

namespace redlatch::engine {
namespace {

// A call returns by its wait + 50 ms: this is for the server's answer, the rest for getting there.
constexpr absl::Duration kAnswerGrace = absl::Milliseconds(40);
constexpr absl::Duration kListenTimeout = absl::Milliseconds(500);

}  // namespace

void Handle::Compete(ParkedWaiter& waiter, base::Instant deadline, const Want& want) {
  base::Instant answered_by = deadline + kAnswerGrace;
  if (absl::Status deaf = core_->Listen(std::min(answered_by, base::Now() + kListenTimeout));
      !deaf.ok()) {
    waiter.state = Waiter::State::kFailed;
    waiter.failure = std::move(deaf);
    return;
  }
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
  if (want.stop.stop_possible()) {
    on_stop.emplace(want.stop, [this, &waiter] {
      {
        const base::MutexLock lock(entry_.mu);
        if (!waiter.parked || waiter.wake_pending) return;
        waiter.wake_pending = true;
      }
      waiter.parker.Set(ParkedWaiter::kWoken);
    });
  }

  bool asked = false;
  bool parked = false;
  std::optional<Send> send;  // to be run by this thread
  Answer answer;
  const auto step = [&](LockMachine& machine, Effects& effects) {
    const base::Instant now = base::Now();
    waiter.parked = parked = false;
    waiter.wake_pending = false;
    if (!std::exchange(asked, true)) machine.Acquire(waiter, now, effects);
    if (send) machine.OnAnswer(*send, answer, now, effects);
    send.reset();
    if (waiter.state == Waiter::State::kWaiting && waiter.poked) {
      machine.Poked(waiter, now, effects);
    }
    if (waiter.state == Waiter::State::kGranted && waiter.tenure != 0 &&
        !machine.Valid(waiter.tenure, now)) {
      // The thread did not run for longer than the lease: as if it had never been granted.
      machine.Expire(now, effects);
      waiter.state = Waiter::State::kWaiting;
      machine.Acquire(waiter, now, effects);
    }
    if (waiter.state != Waiter::State::kWaiting) return;
    if (want.stop.stop_requested() || (want.gone != nullptr && *want.gone)) {
      machine.GiveUp(waiter, Waiter::State::kStopped, now, effects);
    } else if (answered_by <= now || (deadline <= now && waiter.patience != Patience::kNone &&
                                      machine.KnowsWhy(waiter))) {
      machine.GiveUp(waiter, Waiter::State::kBusy, now, effects);
    }
    if (waiter.state != Waiter::State::kWaiting) {
      answered_by = std::min(answered_by, now + kAnswerGrace);
    }
    if (now < answered_by) send = machine.NextSend(now);
    // Where it is, its state is another thread's to change, whose wake must then be awaited.
    waiter.parked = parked = waiter.state == Waiter::State::kWaiting && !send;
  };

  while (true) {
    waiter.parker.Arm();
    core_->Feed(entry_, step);
    if (send) {
      const base::Instant limit = std::min(answered_by, base::Now() + core_->command_timeout());
      answer = core_->Run(entry_, *send, limit);
      continue;
    }
    if (!parked) return;
    const uint32_t woken =
        core_->Await(waiter.parker, base::Now() < deadline ? deadline : answered_by);
    if (woken == ParkedWaiter::kThrough) return;
    if (woken != base::Parker::kArmed) continue;
    bool pending = false;
    {
      const base::MutexLock lock(entry_.mu);
      waiter.parked = false;
      pending = waiter.wake_pending;
    }
    if (pending) waiter.parker.ParkUntil(base::Instant::Infinite());  // it is on its way
  }
}

}  // namespace redlatch::engine
