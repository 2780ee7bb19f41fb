#ifndef REDLATCH_SRC_LOCK_ASYNC_RELEASE_H_
#define REDLATCH_SRC_LOCK_ASYNC_RELEASE_H_

#include <memory>
#include <optional>

#include "src/lock/async_script.h"
#include "src/lock/entry.h"
#include "src/lock/event_driver.h"
#include "src/lock/state/effects.h"
#include "src/lock/state/hold_owner.h"

namespace redlatch::internal {

// A release that no thread waits for: as LockSession::Release(), in steps.
class AsyncRelease final : public AsyncTask {
 public:
  // A release that has begun, and its next script unless that is postponed. `entry` is referred to.
  // No `then`: the result is not needed.
  AsyncRelease(EventDriver& driver, Entry& entry, Released begun, std::optional<Request> request,
               HoldOwner::Then then);
  ~AsyncRelease() override;

 private:
  bool Step(unsigned events, base::Instant now) override;
  base::Instant due() const override { return script_ == nullptr ? look_at_ : script_->due(); }
  void Send(std::optional<Request> request);
  bool IsElsewhere(base::Instant now);
  void End();

  EventDriver& driver_;
  Entry& entry_;
  HoldOwner::Then then_;
  base::Instant deadline_;
  std::optional<Request> begun_;
  Released released_;
  std::unique_ptr<AsyncScript> script_;
  bool requests_ = false;  // it, and no other, has sent the release
  base::Instant look_at_ = base::Instant::Infinite();
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ASYNC_RELEASE_H_
