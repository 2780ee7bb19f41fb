// What the thread of an acquisition does until that is decided: runs scripts, listens, and sleeps.
#include <algorithm>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "src/base/parker.h"
#include "src/engine/machine/acquisition.h"
#include "src/engine/runtime/lock_session.h"
#include "src/engine/runtime/thread_waker.h"

namespace redlatch::engine {
bool LockSession::Listen(Acquisition& acquisition, const Want& want) {
  redis::Deployment& deployment = core_->deployment();
  const std::string_view key = entry_.keys.main();
  if (deployment.listening(key)) return true;
  const base::Instant now = base::Now();
  absl::Status deaf = deployment.Listen(key, now + acquisition.ListenPatience(now), want.stop);
  if (deaf.ok()) return true;
  const base::MutexLock lock(entry_.mu);
  return acquisition.GoOnDeaf(std::move(deaf), now, *entry_.machine);
}

void LockSession::Compete(Acquisition& acquisition, ThreadWaker& waker, const Want& want) noexcept {
  using Kind = Acquisition::Next::Kind;
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
  if (want.stop.stop_possible()) {
    on_stop.emplace(want.stop, [&] {
      {
        const base::MutexLock lock(entry_.mu);
        if (!acquisition.Rouse()) return;
      }
      waker.Wake(/*through=*/false);
    });
  }

  std::optional<Answer> answer;
  while (true) {
    waker.parker.Arm();
    Acquisition::Next next;
    core_->Feed(entry_, [&](Bidder& machine, Effects& effects) {
      const Acquisition::Event event{.answer = answer ? &*answer : nullptr,
                                     .stopped = want.stop.stop_requested(),
                                     .gone = want.gone != nullptr && *want.gone};
      // Under the machine's lock: if it is deafened from here on, that is fed behind this.
      if (want.terms.stays && core_->deployment().hears(entry_.keys.main())) machine.OnHearing();
      next = acquisition.Resume(event, base::Now(), machine, effects);
    });
    answer.reset();
    if (next.kind == Kind::kDone) return;
    if (next.kind == Kind::kRun) {
      const Send& send = acquisition.send();
      // The answer would wake this thread for nothing: it is read if no grant comes soon.
      if (send.unread_for > absl::ZeroDuration() && core_->deployment().hears(entry_.keys.main())) {
        const auto listen = [&] {
          return Doze(acquisition, waker, std::min(next.until, send.sent + send.unread_for));
        };
        if (core_->RunAndRead(entry_, send, listen, next.until, answer)) continue;
      }
      answer = core_->Run(entry_, send, next.until);
      continue;
    }
    if (Sleep(acquisition, waker, next.until) == ThreadWaker::kThrough) return;
  }
}

bool LockSession::Doze(Acquisition& acquisition, ThreadWaker& waker, base::Instant until) {
  {
    const base::MutexLock lock(entry_.mu);
    if (!acquisition.Park()) return acquisition.granted();
  }
  Sleep(acquisition, waker, until);
  const base::MutexLock lock(entry_.mu);
  return acquisition.granted();
}

uint32_t LockSession::Sleep(Acquisition& acquisition, ThreadWaker& waker, base::Instant until) {
  const uint32_t woken = core_->deployment().Await(entry_.keys.main(), waker.parker, until);
  if (woken != base::Parker::kArmed) return woken;
  {
    const base::MutexLock lock(entry_.mu);
    if (!acquisition.Overslept()) return woken;
  }
  return waker.parker.ParkUntil(base::Instant::Infinite());
}

}  // namespace redlatch::engine
