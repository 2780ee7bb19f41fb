// Looks: whether a lock that was handed over by message was taken.
#include "src/engine/lock_machine.h"
#include "src/engine/timing.h"

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
  if (pursuit_ && pursuit_->queued) {  // a heartbeat looks as well
    pursuit_->due = std::min(pursuit_->due, due);
    pursuit_->again |= at_once && pursuit_->in_flight;
    if (!then.is_infinite()) look_ = Look{.hold = NextNumber(), .claim = later, .due = then};
    return;
  }
  if (holding_ && config_.sharing == Sharing::kExclusive) return;
  if (look_ && at_once) {  // which does not stand for a look that is still to come
    then = std::min({then, look_->then, look_->due > now ? look_->due : then});
  }
  look_ = Look{.hold = NextNumber(), .claim = look, .due = due, .then = then};
}

std::optional<Send> LockMachine::NextLook(base::Instant now) {
  if (!look_ || look_->in_flight || now < look_->due) return std::nullopt;
  if (pursuit_ && pursuit_->queued && pursuit_->in_flight) {  // its heartbeat looks as well
    EndLook();
    return std::nullopt;
  }
  look_->in_flight = true;
  return Send{
      .operation = Operation::kCancel, .hold = look_->hold, .sent = now, .lease = look_->claim};
}

void LockMachine::EndLook() {
  const Look ended = *look_;
  look_.reset();
  if (ended.then.is_infinite()) return;
  look_ = Look{.hold = NextNumber(), .claim = ended.claim, .due = ended.then};
}

// Whether that was the answer to a look.
bool LockMachine::OnLook(const Send& send, const Answer& answer, base::Instant now) {
  if (!look_ || look_->hold != send.hold) return false;
  if (answer.kind != Answer::Kind::kFailed || ++look_->failures >= kMostFailures) {
    EndLook();
  } else {
    look_->in_flight = false;
    look_->due = now + Spread(kFirstBackoff, kLongestBackoff, look_->failures, look_->hold);
  }
  return true;
}

}  // namespace redlatch::engine
