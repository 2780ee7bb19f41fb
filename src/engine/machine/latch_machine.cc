#include "src/engine/machine/latch_machine.h"

#include <variant>

namespace redlatch::engine {

// What this client was told of the latch is told back: a server that lacks some of it is found out.
std::optional<Send> LatchMachine::NextSend(base::Instant now, absl::Duration early) {
  std::optional<Send> send = Bidder::NextSend(now, early);
  if (auto* const acquire = send ? std::get_if<ToAcquire>(&send->what) : nullptr) {
    acquire->told = told_;
  }
  return send;
}

void LatchMachine::OnTold(const Told& told) {
  if (told.counts > told_.counts) told_ = told;
}

bool LatchMachine::OnLateAnswer(const Bade&, const Answer& answer, base::Instant, Effects&) {
  return std::holds_alternative<BidGranted>(answer.bid());  // nothing is left at the server
}

void LatchMachine::LetThrough(base::Instant now, Effects& effects) {
  pursuit_.reset();
  while (Waiter* const waiter = queue_.head()) {
    queue_.Remove(*waiter);
    waiter->state = Waiter::State::kGranted;
    ++tally_.opened;
    if (config_.counts) tally_.waited.Add(waiter->began, now);
    if (Rouse(*waiter)) effects.through.push_back(waiter);
  }
}

}  // namespace redlatch::engine
