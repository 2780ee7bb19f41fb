#include "src/engine/machine/acquisition.h"

#include <algorithm>
#include <utility>

#include "src/base/status.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

constexpr absl::Duration kListenTimeout = absl::Milliseconds(500);

Patience PatienceOf(absl::Duration wait) {
  if (wait <= absl::ZeroDuration()) return Patience::kNone;
  return wait < absl::InfiniteDuration() ? Patience::kBounded : Patience::kEndless;
}

}  // namespace

Acquisition::Acquisition(Call call)
    : command_timeout_(call.command_timeout),
      unreachable_after_(call.unreachable_after),
      deadline_(call.began + std::max(call.wait, absl::ZeroDuration())),
      answered_by_(deadline_ + PatienceForAnswer(call.wait, call.command_timeout)) {
  waiter_.thread = call.thread;
  waiter_.object = call.object;
  waiter_.face = call.face;
  waiter_.patience = PatienceOf(call.wait);
  waiter_.terms = std::move(call.terms);
  waiter_.options = std::move(call.options);
  waiter_.write_token = call.write_token;
  waiter_.began = call.began;
  waiter_.silent_since = call.met.since;
  waiter_.failure = std::move(call.met.why);
  waiter_.waker = call.waker;
}

absl::Duration Acquisition::ListenPatience(base::Instant now) const {
  base::Instant end = answered_by_;
  if (waiter_.patience == Patience::kEndless) {
    const base::Instant silent = std::max(std::min(waiter_.silent_since, now), waiter_.began);
    end = std::min(end, silent + unreachable_after_ + kAnswerGrace);
  } else if (waiter_.patience == Patience::kNone) {
    end = std::min(end, now + kAnswerGrace);  // no message is for one that does not wait
  }
  return std::min(kListenTimeout, (end - now) / 2);
}

bool Acquisition::GoOnDeaf(absl::Status why, base::Instant now, Bidder& machine) {
  waiter_.failure = std::move(why);
  if (absl::IsUnavailable(waiter_.failure)) {
    waiter_.silent_since = std::min(waiter_.silent_since, now);
    return true;
  }
  waiter_.state = Waiter::State::kFailed;
  machine.OnRefused(waiter_.state);
  return false;
}

void Acquisition::Ask(const Event& event, base::Instant now, Bidder& machine, Effects& effects) {
  const bool room = machine.MakeRoomForWaiter();
  if (!event.gone && room) return machine.Acquire(waiter_, now, effects);
  if (!room) waiter_.failure = base::NoMemory();
  waiter_.state = room ? Waiter::State::kStopped : Waiter::State::kFailed;
  machine.OnRefused(waiter_.state);
}

void Acquisition::TakeAnswer(const Answer& answer, base::Instant now, Bidder& machine,
                             Effects& effects) {
  if (answer.unreachable()) {
    waiter_.silent_since = std::min(waiter_.silent_since, send_->sent);
    waiter_.failure = base::Unshared(answer.failed()->why);
  }
  machine.OnAnswer(*send_, answer, now, effects);
}

void Acquisition::GiveUpInTime(const Event& event, base::Instant now, Bidder& machine,
                               Effects& effects) {
  const bool waited =
      deadline_ <= now && waiter_.patience != Patience::kNone && machine.KnowsWhy(waiter_);
  if (event.stopped || event.gone) {
    machine.GiveUp(waiter_, Waiter::State::kStopped, now, effects);
  } else if (gives_up_at_ <= now) {
    machine.GiveUp(waiter_, Waiter::State::kBusy, now, effects);
    answered_by_ = now;  // that a server which is silent is told now helps nobody
  } else if (answered_by_ <= now || waited) {
    machine.GiveUp(waiter_, Waiter::State::kBusy, now, effects);
  }
  if (waiter_.state != Waiter::State::kWaiting) {
    answered_by_ = std::min(answered_by_, now + kAnswerGrace);
  }
}

Acquisition::Next Acquisition::Resume(const Event& event, base::Instant now, Bidder& machine,
                                      Effects& effects) {
  using State = Waiter::State;
  Bidder::Unpark(waiter_);
  if (!std::exchange(asked_, true)) Ask(event, now, machine, effects);
  if (event.answer != nullptr) TakeAnswer(*event.answer, now, machine, effects);
  send_.reset();
  if (waiter_.state == State::kWaiting && waiter_.poked) machine.Poked(waiter_, now, effects);
  if (waiter_.state == State::kGranted && waiter_.hold != 0 && !machine.Valid(waiter_.hold, now)) {
    // The thread did not run for longer than the lease: as if it had never been granted.
    machine.Expire(now, effects);
    waiter_.view.reset();
    waiter_.state = State::kWaiting;
    Ask(event, now, machine, effects);
  }
  if (waiter_.state != State::kWaiting) return {};

  const bool due = machine.next_send() <= now;
  BoundSilence(due ? now : base::Instant::Infinite(), machine);
  GiveUpInTime(event, now, machine, effects);
  // Else it is the renewer's, who waits for as long as a command may take.
  const bool hasty = answered_by_ < now + command_timeout_ && machine.IsInTheWay(waiter_);
  if (now < answered_by_ && !hasty) send_ = machine.NextSend(now);
  if (due || send_) {  // else nothing has changed since
    BoundSilence(send_ ? send_->sent : base::Instant::Infinite(), machine);
  }
  if (send_) {
    return {.kind = Next::Kind::kRun,
            .until = std::min({answered_by_, gives_up_at_, now + command_timeout_})};
  }
  if (waiter_.state != State::kWaiting) return {};
  Bidder::Park(waiter_);
  return {.kind = Next::Kind::kSleep,
          .until = std::min(now < deadline_ ? deadline_ : answered_by_, gives_up_at_)};
}

bool Acquisition::Rouse() { return Bidder::Rouse(waiter_); }

bool Acquisition::Park() {
  if (waiter_.state != Waiter::State::kWaiting) return false;
  Bidder::Park(waiter_);
  return true;
}

bool Acquisition::Overslept() {
  const bool being_woken = waiter_.wake_pending;
  Bidder::Unpark(waiter_);
  return being_woken;
}

}  // namespace redlatch::engine
