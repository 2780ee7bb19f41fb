// Looks: whether a lock that was handed over by message was taken.
#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

constexpr uint32_t kMostFailures = 4;  // then it is left to the next heartbeat of whoever waits

}  // namespace

// A script handed the lock over; or, with a look of a millisecond, it came to the end of a window,
// and whoever ran it goes on at once.
void LockMachine::LookAfter(absl::Duration look, base::Instant now, absl::Duration later) {
  const bool at_once = look <= absl::Milliseconds(1);
  const base::Instant due = at_once ? now : now + look + kLookGrace;
  base::Instant then = base::Instant::Infinite();
  if (later > absl::ZeroDuration()) then = now + later + kLookGrace;
  if (at_once && pursuit_ && pursuit_->queued) {  // its heartbeat goes on as well
    pursuit_->due = std::min(pursuit_->due, now);
    pursuit_->again |= pursuit_->in_flight;
    if (!then.is_infinite()) LookAt(then);
    return;
  }
  if (grant_ && config_.sharing == Sharing::kExclusive) return;
  if (!at_once) return LookAt(due);
  if (look_) {  // which this one does not stand for
    then = std::min({then, look_->then, look_->due > now ? look_->due : then});
  }
  look_ = Look{.grant = NextNumber(), .due = due, .then = then};
}

// The waiter's heartbeat does not stand for it: that may be late, or never come.
void LockMachine::LookAt(base::Instant due) {
  if (!look_) {
    look_ = Look{.grant = NextNumber(), .due = due};
  } else if (look_->then.is_infinite() || look_->then < due) {
    look_->then = due;  // the latest: by then all claims are over
  }
}

std::optional<Send> LockMachine::NextLook(base::Instant now) {
  if (!look_ || look_->in_flight || now < look_->due) return std::nullopt;
  look_->in_flight = true;
  return Send{.operation = Operation::kCancel, .grant = look_->grant, .sent = now};
}

void LockMachine::EndLook() {
  const Look ended = *look_;
  look_.reset();
  if (ended.then.is_infinite()) return;
  look_ = Look{.grant = NextNumber(), .due = ended.then};
}

// Whether that was the answer to a look.
bool LockMachine::OnLook(const Send& send, const Answer& answer, base::Instant now) {
  if (!look_ || look_->grant != send.grant) return false;
  if (answer.kind != Answer::Kind::kFailed || ++look_->failures >= kMostFailures) {
    EndLook();
  } else {
    look_->in_flight = false;
    look_->due = now + Spread(kFirstBackoff, kLongestBackoff, look_->failures, look_->grant);
  }
  return true;
}

}  // namespace redlatch::engine
