// Release: from a call that ends a hold to the server's word that it has ended.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "src/engine/runtime/about.h"
#include "src/engine/runtime/lock_session.h"

namespace redlatch::engine {

template <class Event>
LockSession::Ending LockSession::Begin(base::Instant deadline, Event event) {
  Ending ending;
  core_->Feed(entry_, [&](LockMachine& machine, Effects& effects) {
    const base::Instant now = base::Now();
    ending.released = event(machine, now, effects);
    if (ending.released.kind == Released::Kind::kUnderWay && now < deadline) {
      ending.send = machine.NextSendOf(ending.released.hold, now);
    }
  });
  return ending;
}

LockSession::Ending LockSession::BeginRelease(uint64_t hold, FencingToken token,
                                              base::Instant deadline) {
  return Begin(deadline, [&](LockMachine& machine, base::Instant now, Effects& effects) {
    return machine.Release(hold, now, effects, token);
  });
}

// What the server said to the script of an ending, and whether there is to be another.
void LockSession::Hear(Ending& ending, const Answer& answer, base::Instant deadline) {
  ending = Begin(deadline, [&](LockMachine& machine, base::Instant now, Effects& effects) {
    machine.OnAnswer(*ending.send, answer, now, effects);
    return machine.Outcome(ending.released.hold);
  });
}

// Runs what a release made due, until it is confirmed, or its time is over: then the renewer goes
// on with it.
absl::Status LockSession::End(Ending& ending, base::Instant deadline) {
  while (ending.send) Hear(ending, core_->Run(entry_, *ending.send, deadline), deadline);
  // What failed sooner says nothing of the next.
  if (ending.released.kind == Released::Kind::kUnderWay && base::Now() >= deadline) {
    core_->NoteSilence();
  }
  absl::Status status = StatusOf(*core_, entry_, ending.released);
  if (core_->observed()) {
    core_->Tell([&](Observer& observer) {
      observer.OnReleased(entry_.name(), ending.released.token, status);
    });
  }
  return status;
}

// Nobody will ask for the outcome, nor wait for it, unless threads of this client wait for what
// comes with it. What is not confirmed by then is the renewer's.
void LockSession::EndQuietly(Ending& ending, base::Instant deadline, bool leaves) {
  if (ending.send && ending.send->bid() == nullptr && core_->MayPostReleaseOf(entry_)) {
    return core_->outbox().Send(entry_, *ending.send, ending.released.hold);
  }
  // An event loop's thread must not wait.
  if (ending.send && leaves) return EndAsync(std::move(ending), nullptr);
  WaitQuietly(ending, deadline);
}

void LockSession::WaitQuietly(Ending& ending, base::Instant deadline) {
  const uint64_t hold = ending.released.hold;
  if (!absl::IsUnavailable(End(ending, deadline))) return;
  core_->Feed(entry_, [&](LockMachine& machine, Effects&) { machine.Forget(hold); });
}

void LockSession::GiveBack(uint64_t hold, Face face, base::Instant until) {
  const base::Instant deadline = std::min(core_->ReleaseBy(), until);
  Ending ending = Begin(deadline, [&](LockMachine& machine, base::Instant now, Effects& effects) {
    return face == Face::kStd ? machine.Unlock(ThreadNumber(), now, effects)
                              : machine.Release(hold, now, effects);
  });
  if (ending.send) return WaitQuietly(ending, deadline);
  core_->Feed(entry_, [&](LockMachine& machine, Effects&) { machine.Forget(hold); });
}

absl::Status LockSession::Release(uint64_t hold, FencingToken token) noexcept {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  const base::Instant deadline = base::Now() + core_->command_timeout();
  Ending ending = BeginRelease(hold, token, deadline);
  return End(ending, deadline);
}

void LockSession::ReleaseQuietly(uint64_t hold, FencingToken token) noexcept {
  if (core_->in_forked_child()) return;
  if (core_->async().OnItsThread())
    return ReleaseAsync(hold, token, nullptr);  // which does not wait
  const base::Instant deadline = core_->ReleaseBy();
  Ending ending = BeginRelease(hold, token, deadline);
  EndQuietly(ending, deadline, /*leaves=*/core_->async().started());
}

void LockSession::ReleaseAll(absl::Span<const SessionHold> holds) noexcept {
  for (const SessionHold& each : holds)
    each.session->ReleaseQuietly(each.held.hold, each.held.token);
}

void LockSession::Unlock() noexcept {
  if (core_->in_forked_child()) return;
  if (Leave()) return;
  if (entry_.plan->traits.reentrant) {
    const base::MutexLock lock(entry_.mu);
    if (entry_.lock().ReleaseInner(ThreadNumber(), Face::kStd)) return;
  }
  const base::Instant deadline = core_->ReleaseBy();
  Ending ending = Begin(deadline, [](LockMachine& machine, base::Instant now, Effects& effects) {
    return machine.Unlock(ThreadNumber(), now, effects);
  });
  if (ending.released.kind == Released::Kind::kNotHeld) {
    return Misuse("unlock() by a thread that does not hold it; nothing was released");
  }
  EndQuietly(ending, deadline);
}

}  // namespace redlatch::engine
