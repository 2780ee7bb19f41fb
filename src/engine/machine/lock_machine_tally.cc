// What the machine counts beside what it does.
#include "src/engine/machine/lock_machine.h"

namespace redlatch::engine {

void LockMachine::CountEnd(Waiter::State state) {
  switch (state) {
    case Waiter::State::kBusy:
      ++tally_.busy;
      return;
    case Waiter::State::kStopped:
      ++tally_.cancelled;
      return;
    case Waiter::State::kDeadlock:
    case Waiter::State::kFailed:
      ++tally_.failed;
      return;
    case Waiter::State::kGranted:    // GiveTo() counts it, or it was reentry
    case Waiter::State::kElsewhere:  // its call goes on
    case Waiter::State::kWaiting:
      return;
  }
}

void LockMachine::OnMisuse() { ++tally_.misused; }

uint64_t LockMachine::releasing() const {
  const uint64_t holds = grant_ && !held() ? 1 : 0;
  return holds + debts_.releasing();
}

uint64_t LockMachine::waiting() const {
  uint64_t waiters = 0;
  for (const Waiter* waiter = queue_.head(); waiter != nullptr; waiter = waiter->next) ++waiters;
  return waiters;
}

}  // namespace redlatch::engine
