#include "src/engine/runtime/async_release.h"

#include <utility>

#include "src/engine/runtime/about.h"
#include "src/engine/runtime/core.h"

namespace redlatch::engine {
namespace {

constexpr absl::Duration kLookEach = absl::Milliseconds(1);

}  // namespace

AsyncRelease::AsyncRelease(AsyncDriver& driver, Entry& entry, Released begun,
                           std::optional<engine::Send> send, Holder::Then then)
    : driver_(driver),
      entry_(entry),
      then_(std::move(then)),
      begun_(std::move(send)),
      released_(std::move(begun)) {}

AsyncRelease::~AsyncRelease() = default;

bool AsyncRelease::Step(unsigned events, base::Instant now) {
  Core& core = driver_.core();
  if ((events & kBegun) != 0) {
    deadline_ = now + core.command_timeout();
    Send(std::exchange(begun_, std::nullopt));
  }
  if (!sends_ && (events & kOver) == 0 && IsElsewhere(now)) return true;
  while (script_ != nullptr) {
    std::optional<Answer> answer = script_->Step(now);
    if (!answer && (events & kOver) == 0) return true;
    if (!answer) break;
    std::optional<engine::Send> send;
    core.Feed(entry_, [&](LockMachine& machine, Effects& effects) {
      machine.OnAnswer(script_->send(), *answer, now, effects);
      released_ = machine.Outcome(released_.hold);
      if (released_.kind == Released::Kind::kUnderWay && now < deadline_) {
        send = machine.NextSendOf(released_.hold, now);
      }
    });
    Send(std::move(send));
  }
  End();
  return false;
}

// Fetches what was postponed. If an acquire request took it along, the thread that sent that
// request gets the reply, and this operation looks for it until it is there.
bool AsyncRelease::IsElsewhere(base::Instant now) {
  std::optional<engine::Send> send;
  {
    const base::MutexLock lock(entry_.mu);
    if (released_.kind == Released::Kind::kUnderWay) {
      released_ = entry_.lock().Outcome(released_.hold);
      send = entry_.lock().NextSendOf(released_.hold, now);
    }
  }
  const bool elsewhere = !send && released_.kind == Released::Kind::kUnderWay && now < deadline_;
  look_at_ = elsewhere ? std::min(now + kLookEach, deadline_) : base::Instant::Infinite();
  Send(std::move(send));
  return elsewhere;
}

void AsyncRelease::Send(std::optional<engine::Send> send) {
  script_.reset();
  if (!send) return;
  sends_ = true;
  script_ = std::make_unique<AsyncScript>(driver_, *this, entry_, *std::move(send), deadline_);
}

void AsyncRelease::End() {
  Core& core = driver_.core();
  script_.reset();
  if (released_.kind == Released::Kind::kUnderWay) {
    if (deadline_ <= base::Now()) core.NoteSilence();
    // Nobody can ask for the outcome any more; it is repeated in the background.
    core.Feed(entry_, [&](LockMachine& machine, Effects&) { machine.Forget(released_.hold); });
  }
  if (core.observed()) core.TellReleasedLater(entry_, released_);
  if (then_) driver_.Complete(std::move(then_)(StatusOf(core, entry_, released_)));
  core.machines().Unrefer(entry_);
}

}  // namespace redlatch::engine
