#include "src/engine/runtime/confirmation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/engine/machine/timing.h"

namespace redlatch::engine {

Confirmation::Confirmation(const Core& core, base::Instant began, absl::Duration wait,
                           absl::Duration ack_timeout)
    : end_(began + std::max(wait, absl::ZeroDuration()) +
           PatienceForAnswer(wait, core.command_timeout())),
      faults_until_(end_.is_infinite() ? base::Now() + core.options().unreachable_after
                                       : end_ - kAnswerGrace),
      acks_until_(std::min(end_ - kAnswerGrace, base::Now() + ack_timeout)),
      backoff_(absl::Milliseconds(5), absl::Milliseconds(200)) {}

const Send* Confirmation::Ask(Core& core, Entry& entry, uint64_t hold) {
  hold_ = hold;
  core.Feed(entry, [&](LockMachine& machine, Effects& effects) {
    const base::Instant now = base::Now();
    machine.Expire(now, effects);
    send_ = machine.Confirm(hold, end_ - kAnswerGrace / 2, now);
  });
  return send_ ? &*send_ : nullptr;
}

bool Confirmation::Hear(Core& core, Entry& entry, const Answer& answer) {
  const Failed* const failed = send_ ? answer.failed() : nullptr;
  bool valid = false;
  core.Feed(entry, [&](LockMachine& machine, Effects& effects) {
    const base::Instant now = base::Now();
    if (send_ && failed == nullptr) machine.OnAnswer(*send_, answer, now, effects);
    valid = machine.Valid(hold_, now);
  });
  if (valid && failed == nullptr) return true;
  const bool passes = failed == nullptr || absl::IsUnavailable(failed->why);
  again_until_ = !passes                                ? base::Instant()
                 : failed != nullptr && failed->too_few ? acks_until_
                                                        : faults_until_;
  why_ = failed == nullptr ? absl::UnavailableError("it was lost before it was confirmed")
                           : absl::Status(failed->why.code(),
                                          absl::StrCat("given back: ", failed->why.message()));
  return false;
}

base::Instant Confirmation::Again() {
  const base::Instant next = base::Now() + backoff_.Next();
  return next < again_until_ ? next : base::Instant::Infinite();
}

}  // namespace redlatch::engine
