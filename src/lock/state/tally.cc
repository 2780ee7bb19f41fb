#include "src/lock/state/tally.h"

namespace redlatch::internal {

void Tally::CountEnd(Waiter::State state) {
  switch (state) {
    case Waiter::State::kBusy:
      ++busy;
      return;
    case Waiter::State::kStopped:
      ++cancelled;
      return;
    case Waiter::State::kDeadlock:
    case Waiter::State::kFailed:
      ++failed;
      return;
    case Waiter::State::kGranted:    // GiveTo() counts it, or it was reentry
    case Waiter::State::kElsewhere:  // its call goes on
    case Waiter::State::kWaiting:
      return;
  }
}

void Tally::AddTo(LockStats& stats, uint64_t releases_failed) const {
  LockStats counted;
  waited.AddTo(counted.waited);
  held_for.AddTo(counted.held_for);
  counted.acquired = counted.waited.count() - opened;
  counted.passed_on = counted.acquired - granted;
  counted.opened = opened;
  counted.busy = busy;
  counted.cancelled = cancelled;
  counted.failed = failed;
  counted.released = counted.held_for.count() - lost - releases_failed;
  counted.releases_failed = releases_failed;
  counted.lost = lost;
  counted.renewed = renewed;
  counted.renewals_failed = renewals_failed;
  counted.misused = misused;
  stats += counted;
}

}  // namespace redlatch::internal
