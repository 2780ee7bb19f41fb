// Waiting at a latch without a thread.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lua/scripts.h"
#include "src/api/latch_body.h"
#include "src/base/status.h"
#include "src/engine/machine/timing.h"
#include "src/engine/runtime/async_run.h"
#include "src/engine/runtime/users_code.h"

namespace redlatch {
namespace {

using engine::AsyncDriver;

AsyncDriver::Completion Telling(CountDownLatch::WaitCallback told, absl::Status status) {
  return [told = std::move(told), status = std::move(status)]() mutable {
    std::move(told)(std::move(status));
  };
}

}  // namespace

void CountDownLatch::LatchBody::Tell(AsyncWait wait, absl::Status status) {
  core_->async().Complete(Telling(std::move(wait.told), std::move(status)));
}

// The first use of a latch looks it up at the server.
void CountDownLatch::LatchBody::WaitAsync(const LatchWaitOptions& options, WaitCallback told) {
  AsyncWait wait{.options = options, .began = base::Now(), .end = {}, .told = std::move(told)};
  absl::Status bad = Check();
  if (bad.ok() && !core_->async().Ready()) bad = base::NoThread();
  if (!bad.ok()) return Tell(std::move(wait), std::move(bad));
  wait.end = options.wait == absl::InfiniteDuration()
                 ? GiveUpBy()
                 : wait.began + std::max(options.wait, absl::ZeroDuration()) +
                       engine::PatienceForAnswer(options.wait, core_->command_timeout());
  std::optional<Latch> known;
  {
    const base::MutexLock lock(mu_);
    if (latch_.session != nullptr) known = latch_;
  }
  if (known) return AwaitAt(*known, std::move(wait));
  const auto nameless = Nameless();
  if (!nameless.ok()) return Tell(std::move(wait), nameless.status());
  AskAsync(
      *nameless, std::move(wait), lua::kLatchCreate, [this] { return CreationArgs(); },
      &LatchBody::AfterCreation);
}

void CountDownLatch::LatchBody::AfterCreation(AsyncWait wait, const redis::Reply& created) {
  const absl::StatusOr<Latch> latch = Learn(created);
  if (!latch.ok()) return Tell(std::move(wait), latch.status());
  AwaitAt(*latch, std::move(wait));
}

void CountDownLatch::LatchBody::AwaitAt(const Latch& latch, AsyncWait wait) {
  if (wait.options.wait <= absl::ZeroDuration()) {
    return AskAsync(
        latch.session, std::move(wait), lua::kLatchCount,
        [name = latch.name] { return std::vector<std::string>{name}; }, &LatchBody::AfterCount);
  }
  latch.session->AcquireAsync(
      WantOf(wait.options, wait.began),
      [told = std::move(wait.told)](const absl::StatusOr<engine::SessionHold>& open) mutable {
        return Telling(std::move(told), open.status());
      });
  if (gone_) core_->async().StopObject(this);  // it went while the latch was looked for
}

// The task keeps this alive until it is answered or the object is destroyed.
void CountDownLatch::LatchBody::AskAsync(const std::shared_ptr<engine::LockSession>& session,
                                         AsyncWait wait, const LuaScript& script,
                                         std::function<std::vector<std::string>()> args,
                                         Next next) {
  engine::AsyncRun::Call call{.object = this,
                              .stop = wait.options.stop,
                              .until = wait.end,
                              .attempt = nullptr,
                              .then = nullptr};
  call.attempt = [session, &script, args = std::move(args),
                  until = wait.end](engine::AsyncTask& task) {
    return session->RunInARound(task, script, args(), until);
  };
  call.then = [self = shared_from_this(), session, wait = std::move(wait),
               next](absl::StatusOr<redis::Reply> reply) mutable {
    if (!reply.ok()) return self->Tell(std::move(wait), session->About(reply.status()));
    (*self.*next)(std::move(wait), *reply);
  };
  AsyncDriver& driver = core_->async();
  driver.Begin(std::make_unique<engine::AsyncRun>(driver, std::move(call)));
  if (gone_) driver.StopObject(this);
}

void CountDownLatch::WaitAsync(const LatchWaitOptions& options, WaitCallback callback) {
  body_->WaitAsync(options, engine::NotNull(std::move(callback)));
}

}  // namespace redlatch
