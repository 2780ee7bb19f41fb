// Acquisition: one thread's way through the machine, from its call to its outcome.
#include <algorithm>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

#include "src/base/status.h"
#include "src/engine/machine/timing.h"
#include "src/engine/runtime/lock_session.h"

namespace redlatch::engine {
namespace {

constexpr absl::Duration kListenTimeout = absl::Milliseconds(500);

}  // namespace

bool LockSession::Listen(ParkedWaiter& waiter, base::Instant answered_by, const Want& want) {
  if (core_->listening()) return true;
  const base::Instant now = base::Now();
  base::Instant end = answered_by;
  if (waiter.patience == Patience::kEndless) {
    const base::Instant silent = std::max(std::min(waiter.silent_since, now), waiter.began);
    end = std::min(end, silent + core_->options().unreachable_after + kAnswerGrace);
  } else if (waiter.patience == Patience::kNone) {
    end = std::min(end, now + kAnswerGrace);  // no message is for one that does not wait
  }
  // Half of the time at most: the rest is for asking, which can succeed without.
  const absl::Duration patience = std::min(kListenTimeout, (end - now) / 2);
  absl::Status deaf = core_->Listen(now + patience, want.stop);
  if (deaf.ok()) return true;
  waiter.failure = std::move(deaf);
  if (absl::IsUnavailable(waiter.failure)) {
    waiter.silent_since = std::min(waiter.silent_since, now);
    return true;
  }
  waiter.state = Waiter::State::kFailed;
  const base::MutexLock lock(entry_.mu);
  entry_.machine.OnRefused(waiter.state);
  return false;
}

void LockSession::Compete(ParkedWaiter& waiter, base::Instant deadline, const Want& want) {
  base::Instant answered_by = deadline + PatienceForAnswer(want.wait, core_->command_timeout());
  if (!Listen(waiter, answered_by, want)) return;
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
  base::Instant gives_up_at;
  const auto ask = [&](LockMachine& machine, base::Instant now, Effects& effects) {
    if (want.gone == nullptr || !*want.gone) return machine.Acquire(waiter, now, effects);
    waiter.state = Waiter::State::kStopped;
    machine.OnRefused(waiter.state);
  };
  const auto step = [&](LockMachine& machine, Effects& effects) {
    const base::Instant now = base::Now();
    waiter.parked = parked = false;
    waiter.wake_pending = false;
    if (!std::exchange(asked, true)) ask(machine, now, effects);
    if (send) {
      if (absl::IsUnavailable(answer.failure)) {
        waiter.silent_since = std::min(waiter.silent_since, send->sent);
        waiter.failure = base::Unshared(answer.failure);
      }
      machine.OnAnswer(*send, answer, now, effects);
    }
    send.reset();
    if (waiter.state == Waiter::State::kWaiting && waiter.poked) {
      machine.Poked(waiter, now, effects);
    }
    if (waiter.state == Waiter::State::kGranted && waiter.hold != 0 &&
        !machine.Valid(waiter.hold, now)) {
      // The thread did not run for longer than the lease: as if it had never been granted.
      machine.Expire(now, effects);
      waiter.view.reset();
      waiter.state = Waiter::State::kWaiting;
      ask(machine, now, effects);
    }
    if (waiter.state != Waiter::State::kWaiting) return;
    const bool due = machine.next_send() <= now;
    gives_up_at = machine.GivesUpAt(waiter, due ? now : base::Instant::Infinite());
    if (want.stop.stop_requested() || (want.gone != nullptr && *want.gone)) {
      machine.GiveUp(waiter, Waiter::State::kStopped, now, effects);
    } else if (gives_up_at <= now) {
      machine.GiveUp(waiter, Waiter::State::kBusy, now, effects);
      answered_by = now;  // that a server which is silent is told now helps nobody
    } else if (answered_by <= now || (deadline <= now && waiter.patience != Patience::kNone &&
                                      machine.KnowsWhy(waiter))) {
      machine.GiveUp(waiter, Waiter::State::kBusy, now, effects);
    }
    if (waiter.state != Waiter::State::kWaiting) {
      answered_by = std::min(answered_by, now + kAnswerGrace);
    }
    // Else it is the renewer's, who waits for as long as a command may take.
    const bool hasty = answered_by < now + core_->command_timeout() && machine.IsInTheWay(waiter);
    if (now < answered_by && !hasty) send = machine.NextSend(now);
    if (due || send) {  // else nothing has changed since
      gives_up_at = machine.GivesUpAt(waiter, send ? send->sent : base::Instant::Infinite());
    }
    // Where it is, its state is another thread's to change, whose wake must then be awaited.
    waiter.parked = parked = waiter.state == Waiter::State::kWaiting && !send;
  };

  while (true) {
    waiter.parker.Arm();
    core_->Feed(entry_, step);
    if (send) {
      const base::Instant limit =
          std::min({answered_by, gives_up_at, base::Now() + core_->command_timeout()});
      answer = core_->Run(entry_, *send, limit);
      continue;
    }
    if (!parked) return;
    const base::Instant until = base::Now() < deadline ? deadline : answered_by;
    const uint32_t woken = core_->Await(waiter.parker, std::min(until, gives_up_at));
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
