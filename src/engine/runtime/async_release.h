#ifndef REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_RELEASE_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_RELEASE_H_

#include <memory>
#include <optional>

#include "src/engine/machine/effects.h"
#include "src/engine/machine/holder.h"
#include "src/engine/runtime/async_driver.h"
#include "src/engine/runtime/async_script.h"
#include "src/engine/runtime/entry.h"

namespace redlatch::engine {

// A release that no thread waits for: as LockSession::Release(), in steps.
class AsyncRelease final : public AsyncTask {
 public:
  // A release that has begun, and its next script unless that is postponed. `entry` is referred to.
  // No `then`: the result is not needed.
  AsyncRelease(AsyncDriver& driver, Entry& entry, Released begun, std::optional<engine::Send> send,
               Holder::Then then);
  ~AsyncRelease() override;

 private:
  bool Step(unsigned events, base::Instant now) override;
  base::Instant due() const override { return script_ == nullptr ? look_at_ : script_->due(); }
  void Send(std::optional<engine::Send> send);
  bool IsElsewhere(base::Instant now);
  void End();

  AsyncDriver& driver_;
  Entry& entry_;
  Holder::Then then_;
  base::Instant deadline_;
  std::optional<engine::Send> begun_;
  Released released_;
  std::unique_ptr<AsyncScript> script_;
  bool sends_ = false;  // it, and no other, has sent the release
  base::Instant look_at_ = base::Instant::Infinite();
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_RELEASE_H_
