// An acquisition that belongs to one thread, from what is wanted to what came of it; what the
// thread does meanwhile is in compete.cc.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/parker.h"
#include "src/engine/machine/acquisition.h"
#include "src/engine/runtime/about.h"
#include "src/engine/runtime/confirmation.h"
#include "src/engine/runtime/lock_session.h"
#include "src/engine/runtime/thread_waker.h"

namespace redlatch::engine {
absl::StatusOr<Held> LockSession::Acquire(const Want& want, Silence* met) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (absl::Status bad = CheckLease(want.terms.lease); !bad.ok()) return About(bad);
  if (want.options != nullptr) {
    if (absl::Status bad = CheckAcks(*want.options); !bad.ok()) return About(bad);
    if (absl::Status bad = CheckStay(*want.options); !bad.ok()) return About(bad);
  }
  if (absl::Status none = core_->SeeToThreads(); !none.ok()) return About(none);
  const base::Instant began = want.since ? *want.since : base::Now();
  std::optional<absl::StatusOr<Held>> granted = AcquireOnce(want, began, met);
  if (!granted) return Held();  // it goes on elsewhere
  absl::StatusOr<Held> result = *std::move(granted);
  if (result.ok() && want.terms.acks.any()) {
    result = Confirmed(want, began, *std::move(result), met);
  }
  if (entry_.plan->sharing.holds && core_->observed()) {
    const absl::Duration waited = base::Now() - began;
    core_->Tell([&](Observer& observer) {
      if (result.ok()) {
        observer.OnAcquired(entry_.name(), result->token, waited);
      } else {
        observer.OnWaitEnded(entry_.name(), waited, result.status());
      }
    });
  }
  return result;
}

std::optional<absl::StatusOr<Held>> LockSession::AcquireOnce(const Want& want, base::Instant began,
                                                             Silence* met) {
  if (want.terms.stays) core_->LookForMessages(entry_, base::Now());
  ThreadWaker waker;
  Acquisition acquisition({.thread = ThreadNumber(),
                           .object = want.object,
                           .face = want.face,
                           .terms = want.terms,
                           .options = want.options,
                           .write_token = want.write_token,
                           .began = began,
                           .wait = want.wait,
                           .met = want.silence,
                           .command_timeout = core_->command_timeout(),
                           .unreachable_after = core_->options().unreachable_after,
                           .waker = &waker});
  Waiter& waiter = acquisition.waiter();
  if (want.face == Face::kStatus) waiter.view = std::make_shared<HoldView>();
  {
    const base::MutexLock lock(entry_.mu);
    entry_.machine->MakeRoom();
  }
  if (Listen(acquisition, want)) Compete(acquisition, waker, want);
  if (waiter.state == Waiter::State::kElsewhere) {
    if (met != nullptr) *met = {.since = waiter.silent_since, .why = std::move(waiter.failure)};
    return std::nullopt;
  }
  return Result(*core_, entry_, waiter, want.wait);
}

// A grant that replicas do not have may be lost with its server: it is no thread's before they do.
absl::StatusOr<Held> LockSession::Confirmed(const Want& want, base::Instant began, Held held,
                                            Silence* met) noexcept {
  Confirmation confirmation(*core_, began, want.wait, want.options->ack_timeout);
  for (;;) {
    Answer answer;
    if (const Send* const send = confirmation.Ask(*core_, entry_, held.hold)) {
      answer = core_->acked_renewals().Run(entry_, *send, confirmation.end());
    }
    if (confirmation.Hear(*core_, entry_, answer)) return held;
    GiveBack(held.hold, want.face, confirmation.end());
    const base::Instant again = confirmation.Again();
    if (again.is_infinite() || want.stop.stop_requested()) return About(confirmation.why());
    base::Parker().ParkUntil(again);
    std::optional<absl::StatusOr<Held>> granted = AcquireOnce(want, began, met);
    if (!granted) return Held();
    if (!granted->ok()) return About(confirmation.why());
    held = **std::move(granted);
  }
}

absl::StatusOr<Held> LockSession::Result(Core& core, const Entry& entry, Waiter& waiter,
                                         absl::Duration wait) {
  const auto about = [&](const absl::Status& status) { return engine::About(core, entry, status); };
  switch (waiter.state) {
    case Waiter::State::kGranted:
      while (waiter.began < waiter.not_before && base::Now() < waiter.not_before) {
      }
      return Held{.hold = waiter.hold, .token = waiter.token, .view = std::move(waiter.view)};
    case Waiter::State::kBusy:
      return about(absl::DeadlineExceededError(absl::StrCat(
          std::string(entry.plan->busy),
          wait <= absl::ZeroDuration() ? ""
                                       : absl::StrCat("; waited ", absl::FormatDuration(wait)))));
    case Waiter::State::kDeadlock:
      return about(absl::FailedPreconditionError(
          "this thread already holds it, and it is not reentrant; ReentrantLock is"));
    case Waiter::State::kStopped:
      return about(absl::CancelledError("the wait was stopped"));
    case Waiter::State::kElsewhere:
    case Waiter::State::kFailed:
    case Waiter::State::kWaiting:
      break;
  }
  return about(waiter.failure);
}

}  // namespace redlatch::engine
