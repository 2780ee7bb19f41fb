// A grant that no thread has, and that stays with the client.
#include "src/engine/machine/lock_machine.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {
namespace {

// Threads that are away for no more than this part of a turn are worth waiting for.
constexpr int kPartsOfATurn = 16;

}  // namespace

// Threads that came back soon are expected to do so again.
void LockMachine::OnComing(const Waiter& waiter, base::Instant now) {
  may_rest_ = waiter.object != nullptr;
  const absl::Duration turn = waiter.options->turn;
  if (turn > absl::ZeroDuration() && freed_at_ != base::Instant()) {
    comes_again_ = now - freed_at_ <= Scaled(turn, 1, kPartsOfATurn);
  }
}

bool LockMachine::Rest(base::Instant now) {
  freed_at_ = now;
  if (!may_rest_ || !comes_again_ || grant_->turn_ends <= now || grant_->deadline <= now ||
      grant_->pinned || grant_->terms.manual || grant_->terms.acks.any() ||
      config_.explicit_owner || !config_.sharing.passes_on ||
      grant_->next_token > grant_->last_token) {
    return false;
  }
  grant_->rests_until = grant_->turn_ends;
  return true;
}

void LockMachine::EndRest(base::Instant now) {
  ReleaseGrant(0, FencingToken(), now);
  Pursue(now);
}

}  // namespace redlatch::engine
