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
  // A release that has begun, and whose next script, if there is one, is due. `entry` is
  // referred to. No `then`: the result is not needed.
  AsyncRelease(AsyncDriver& driver, Entry& entry, Released begun, std::optional<engine::Send> send,
               Holder::Then then);
  ~AsyncRelease() override;

 private:
  bool Step(unsigned events, base::Instant now) override;
  base::Instant due() const override {
    return script_ == nullptr ? base::Instant::Infinite() : script_->due();
  }
  void Send(std::optional<engine::Send> send);
  void End();

  AsyncDriver& driver_;
  Entry& entry_;
  Holder::Then then_;
  base::Instant deadline_;
  std::optional<engine::Send> begun_;
  Released released_;
  std::unique_ptr<AsyncScript> script_;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_RELEASE_H_
