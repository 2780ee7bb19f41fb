#include "src/lock/confirmation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/lock/state/timing.h"

namespace redlatch::internal {

Confirmation::Confirmation(const ClientCore& core, base::Instant began, absl::Duration wait,
                           absl::Duration ack_timeout)
    : end_(began + std::max(wait, absl::ZeroDuration()) +
           PatienceForAnswer(wait, core.command_timeout())),
      faults_until_(end_.is_infinite() ? base::Now() + core.options().unreachable_after
                                       : end_ - kAnswerGrace),
      acks_until_(std::min(end_ - kAnswerGrace, base::Now() + ack_timeout)),
      backoff_(absl::Milliseconds(5), absl::Milliseconds(200)) {}

const Request* Confirmation::Ask(ClientCore& core, Entry& entry, uint64_t hold) {
  hold_ = hold;
  core.Feed(entry, [&](LockState& state, Effects& effects) {
    const base::Instant now = base::Now();
    state.Expire(now, effects);
    request_ = state.Confirm(hold, end_ - kAnswerGrace / 2, now);
  });
  return request_ ? &*request_ : nullptr;
}

bool Confirmation::Hear(ClientCore& core, Entry& entry, const Result& result) {
  const Failed* const failed = request_ ? result.failed() : nullptr;
  bool valid = false;
  core.Feed(entry, [&](LockState& state, Effects& effects) {
    const base::Instant now = base::Now();
    if (request_ && failed == nullptr) state.OnResult(*request_, result, now, effects);
    valid = state.Valid(hold_, now);
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

}  // namespace redlatch::internal
