#include "src/engine/machine/tally.h"

namespace redlatch::engine {

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

}  // namespace redlatch::engine
