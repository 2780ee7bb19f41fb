#include "src/lock/state/latch_state.h"

#include <variant>

namespace redlatch::internal {

// What this client was told of the latch is told back: a server that lacks some of it is found out.
std::optional<Request> LatchState::NextRequest(base::Instant now, absl::Duration early) {
  std::optional<Request> request = Bidder::NextRequest(now, early);
  if (auto* const acquire = request ? std::get_if<ToAcquire>(&request->what) : nullptr) {
    acquire->told = told_;
  }
  return request;
}

void LatchState::OnCounts(const LatchCounts& told) {
  if (told.counts > told_.counts) told_ = told;
}

bool LatchState::OnLateResult(const Bade&, const Result& result, base::Instant, Effects&) {
  return std::holds_alternative<AcquireGranted>(result.acquire());  // nothing is left at the server
}

void LatchState::LetThrough(base::Instant now, Effects& effects) {
  pending_.reset();
  while (Waiter* const waiter = queue_.head()) {
    queue_.Remove(*waiter);
    waiter->state = Waiter::State::kGranted;
    ++tally_.opened;
    if (config_.counts) tally_.waited.Add(waiter->began, now);
    if (NeedsWake(*waiter)) effects.through.push_back(waiter);
  }
}

}  // namespace redlatch::internal
