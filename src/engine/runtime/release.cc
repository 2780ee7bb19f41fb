// Release: from a call that ends a hold to the server's word that it has ended.
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/no_cancellation.h"
#include "src/engine/runtime/handle.h"

namespace redlatch::engine {

absl::Status Handle::ReleaseStatus(const Released& released) const {
  switch (released.kind) {
    case Released::Kind::kDone:
      return absl::OkStatus();
    case Released::Kind::kUnderWay:
      return About(absl::UnavailableError(
          absl::StrCat("the release is not confirmed yet; it is being repeated in the background",
                       released.failure.ok() ? "" : ": ", released.failure.message())));
    case Released::Kind::kLost:
      return About(absl::AbortedError("the hold was lost before it was released"));
    case Released::Kind::kNotHeld:
      return About(absl::FailedPreconditionError("the calling thread does not hold it"));
    case Released::Kind::kRefused:
      return About(released.failure);
  }
  return absl::OkStatus();
}

template <class Event>
Handle::Ending Handle::Begin(base::Instant deadline, Event event) {
  Ending ending;
  core_->Feed(entry_, [&](LockMachine& machine, Effects& effects) {
    const base::Instant now = base::Now();
    ending.released = event(machine, now, effects);
    if (ending.released.kind == Released::Kind::kUnderWay && now < deadline) {
      ending.send = machine.NextSendOf(ending.released.tenure, now);
    }
  });
  return ending;
}

Handle::Ending Handle::BeginRelease(uint64_t tenure, base::Instant deadline) {
  return Begin(deadline, [&](LockMachine& machine, base::Instant now, Effects& effects) {
    return machine.Release(tenure, now, effects);
  });
}

// What the server said to the script of an ending, and whether there is to be another.
void Handle::Hear(Ending& ending, const Answer& answer, base::Instant deadline) {
  core_->Feed(entry_, [&](LockMachine& machine, Effects& effects) {
    const base::Instant now = base::Now();
    const uint64_t tenure = ending.released.tenure;
    machine.OnAnswer(*ending.send, answer, now, effects);
    ending.released = machine.Outcome(tenure);
    ending.send.reset();
    if (ending.released.kind == Released::Kind::kUnderWay && now < deadline) {
      ending.send = machine.NextSendOf(tenure, now);
    }
  });
}

// Runs what a release made due, until it is confirmed, or its time is over: then the renewer goes
// on with it.
void Handle::Follow(Ending& ending, base::Instant deadline) {
  while (ending.send) Hear(ending, core_->Run(entry_, *ending.send, deadline), deadline);
}

absl::Status Handle::End(Ending& ending, base::Instant deadline) {
  Follow(ending, deadline);
  // What failed sooner says nothing of the next.
  if (ending.released.kind == Released::Kind::kUnderWay && base::Now() >= deadline) {
    core_->NoteSilence();
  }
  absl::Status status = ReleaseStatus(ending.released);
  if (core_->observed()) {
    core_->Tell([&](Observer& observer) {
      observer.OnReleased(entry_.keys.name(), ending.released.token, status);
    });
  }
  return status;
}

// Nobody will ask for the outcome.
void Handle::Forget(uint64_t tenure) {
  core_->Feed(entry_, [&](LockMachine& machine, Effects&) { machine.Forget(tenure); });
}

absl::Status Handle::Release(uint64_t tenure) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  const base::Instant deadline = base::Now() + core_->command_timeout();
  Ending ending = BeginRelease(tenure, deadline);
  return End(ending, deadline);
}

void Handle::Drop(uint64_t tenure) {
  if (core_->in_forked_child()) return;
  const base::Instant deadline = core_->DropBy();
  Ending ending = BeginRelease(tenure, deadline);
  if (absl::IsUnavailable(End(ending, deadline))) Forget(tenure);
}

void Handle::ReleaseAll(absl::Span<const Held> held) {
  if (held.empty() || held.front().handle->core_->in_forked_child()) return;
  if (held.size() == 1) return held.front().handle->Drop(held.front().tenure);
  Core& core = *held.front().handle->core_;
  std::vector<Ending> endings;
  std::vector<Request> requests;
  std::vector<redis::ScriptCall> calls;
  requests.reserve(held.size());  // calls refer to them
  const base::Instant deadline = core.DropBy();
  for (const Held& each : held) {
    Ending& ending = endings.emplace_back(each.handle->BeginRelease(each.tenure, deadline));
    if (!ending.send) continue;
    requests.emplace_back(core.SubjectOf(each.handle->entry_), *ending.send);
    calls.push_back(requests.back().call());
  }
  std::vector<absl::StatusOr<redis::Reply>> replies(calls.size());
  core.scripts().RunBatch(calls, deadline, absl::MakeSpan(replies));
  auto reply = replies.begin();
  for (size_t i = 0; i < held.size(); ++i) {
    Handle& handle = *held[i].handle;
    if (endings[i].send) {
      handle.Hear(endings[i], ReadAnswer(*endings[i].send, *reply++), deadline);
    }
    // What is not confirmed by now is the renewer's.
    if (absl::IsUnavailable(handle.End(endings[i], deadline))) handle.Forget(held[i].tenure);
  }
}

void Handle::Unlock() noexcept {
  if (core_->in_forked_child()) return;
  if (entry_.plan->traits.reentrant) {
    const base::MutexLock lock(entry_.mu);
    if (entry_.machine.Leave(ThreadNumber(), Face::kStd)) return;
  }
  const base::NoCancellation no_cancellation;
  const base::Instant deadline = core_->DropBy();
  Ending ending = Begin(deadline, [](LockMachine& machine, base::Instant now, Effects& effects) {
    return machine.Unlock(ThreadNumber(), now, effects);
  });
  if (ending.released.kind == Released::Kind::kNotHeld) {
    return Misuse("unlock() by a thread that does not hold it; nothing was released");
  }
  const uint64_t tenure = ending.released.tenure;
  if (absl::IsUnavailable(End(ending, deadline))) Forget(tenure);
}

}  // namespace redlatch::engine
