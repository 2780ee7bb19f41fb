#include "src/lock/async_release.h"

#include <utility>

#include "src/lock/about.h"
#include "src/lock/client_core.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kLookEach = absl::Milliseconds(1);

}  // namespace

AsyncRelease::AsyncRelease(EventDriver& driver, Entry& entry, Released begun,
                           std::optional<Request> request, HoldOwner::Then then)
    : driver_(driver),
      entry_(entry),
      then_(std::move(then)),
      begun_(std::move(request)),
      released_(std::move(begun)) {}

AsyncRelease::~AsyncRelease() = default;

bool AsyncRelease::Step(unsigned events, base::Instant now) {
  ClientCore& core = driver_.core();
  if ((events & kBegun) != 0) {
    deadline_ = now + core.command_timeout();
    Send(std::exchange(begun_, std::nullopt));
  }
  if (!requests_ && (events & kOver) == 0 && IsElsewhere(now)) return true;
  while (script_ != nullptr) {
    std::optional<Result> result = script_->Step(now);
    if (!result && (events & kOver) == 0) return true;
    if (!result) break;
    std::optional<Request> request;
    core.Feed(entry_, [&](LockState& state, Effects& effects) {
      state.OnResult(script_->request(), *result, now, effects);
      released_ = state.Outcome(released_.hold);
      if (released_.kind == Released::Kind::kUnderWay && now < deadline_) {
        request = state.NextRequestOf(released_.hold, now);
      }
    });
    Send(std::move(request));
  }
  End();
  return false;
}

// Fetches what was postponed. If an acquire request took it along, the thread that sent that
// request gets the reply, and this operation looks for it until it is there.
bool AsyncRelease::IsElsewhere(base::Instant now) {
  std::optional<Request> request;
  {
    const base::MutexLock lock(entry_.mu);
    if (released_.kind == Released::Kind::kUnderWay) {
      released_ = entry_.state.Outcome(released_.hold);
      request = entry_.state.NextRequestOf(released_.hold, now);
    }
  }
  const bool elsewhere = !request && released_.kind == Released::Kind::kUnderWay && now < deadline_;
  look_at_ = elsewhere ? std::min(now + kLookEach, deadline_) : base::Instant::Infinite();
  Send(std::move(request));
  return elsewhere;
}

void AsyncRelease::Send(std::optional<Request> request) {
  script_.reset();
  if (!request) return;
  requests_ = true;
  script_ = std::make_unique<AsyncScript>(driver_, *this, entry_, *std::move(request), deadline_);
}

void AsyncRelease::End() {
  ClientCore& core = driver_.core();
  script_.reset();
  if (released_.kind == Released::Kind::kUnderWay) {
    if (deadline_ <= base::Now()) core.NoteSilence();
    // Nobody can ask for the outcome any more; it is repeated in the background.
    core.Feed(entry_, [&](LockState& state, Effects&) { state.Forget(released_.hold); });
  }
  if (core.observed()) core.TellReleasedLater(entry_, released_);
  if (then_) driver_.Complete(std::move(then_)(StatusOf(core, entry_, released_)));
  core.machines().Unrefer(entry_);
}

}  // namespace redlatch::internal
