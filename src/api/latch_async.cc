// Waiting at a latch without a thread.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/api/latch_body.h"
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

// The first use of a latch finds it at the server, which is tried on the driver's thread.
void CountDownLatch::LatchBody::WaitAsync(const LatchWaitOptions& options, WaitCallback told) {
  const base::Instant began = base::Now();
  const bool looks = options.wait <= absl::ZeroDuration();
  if (absl::Status bad = Check(); !bad.ok()) {
    return core_->async().Complete(Telling(std::move(told), std::move(bad)));
  }
  std::optional<Latch> known;
  {
    const base::MutexLock lock(mu_);
    if (latch_.session != nullptr) known = latch_;
  }
  if (known && !looks) return AwaitAt(*known, options, began, std::move(told));
  const base::Instant end =
      options.wait == absl::InfiniteDuration()
          ? GiveUpBy()
          : began + std::max(options.wait, absl::ZeroDuration()) +
                engine::PatienceForAnswer(options.wait, core_->command_timeout());
  core_->async().Begin(std::make_unique<engine::AsyncAttempts>(
      this, [weak = weak_from_this(), &driver = core_->async(), options, began, end, looks,
             told = std::move(told)](base::Instant by, const absl::Status& failure) mutable {
        std::shared_ptr<LatchBody> self = weak.lock();
        if (self == nullptr) {
          driver.Complete(Telling(std::move(told), absl::CancelledError("the latch is gone")));
          return true;
        }
        // It may be the last that keeps the client: it goes where that may go.
        driver.Complete([self] {}, AsyncDriver::Whose::kOwn);
        if (!failure.ok()) {
          driver.Complete(Telling(std::move(told),
                                  self->About(failure.code(), std::string(failure.message()))));
          return true;
        }
        by = std::min(by, end);
        absl::Status status;
        if (looks) {
          const absl::StatusOr<int64_t> count = self->Count(by, options.stop);
          status = count.ok() ? self->WhenLookedAt(*count) : count.status();
        } else {
          const absl::StatusOr<Latch> latch = self->Find(by, by, options.stop);
          if (latch.ok()) {
            self->AwaitAt(*latch, options, began, std::move(told));
            return true;
          }
          status = latch.status();
        }
        const bool again = absl::IsUnavailable(status) && base::Now() < end;
        if (again && options.stop.stop_requested()) {
          status = self->About(absl::StatusCode::kCancelled, "the wait was stopped");
        } else if (again) {
          return false;
        }
        driver.Complete(Telling(std::move(told), std::move(status)));
        return true;
      }));
}

void CountDownLatch::LatchBody::AwaitAt(const Latch& latch, const LatchWaitOptions& options,
                                        base::Instant began, WaitCallback told) {
  latch.session->AcquireAsync(
      WantOf(options, began),
      [told = std::move(told)](const absl::StatusOr<engine::SessionHold>& open) mutable {
        return Telling(std::move(told), open.status());
      });
  if (gone_) core_->async().StopObject(this);  // it went while the latch was looked for
}

void CountDownLatch::WaitAsync(const LatchWaitOptions& options, WaitCallback callback) {
  body_->WaitAsync(options, engine::NotNull(std::move(callback)));
}

}  // namespace redlatch
