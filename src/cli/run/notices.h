// What the library tells of the lock, on threads of its own, for the thread that attends to it.
#ifndef REDLATCH_SRC_CLI_RUN_NOTICES_H_
#define REDLATCH_SRC_CLI_RUN_NOTICES_H_

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "redlatch/observer.h"
#include "src/base/wake_event.h"

namespace redlatch::cli {

class Notices : public Observer {
 public:
  Notices() { event_.Open(); }

  int fd() const { return event_.fd(); }  // can be read when something has happened; -1: none
  void Nudge() const { event_.Signal(); }
  void Clear() { event_.Drain(); }

  // The stop token fires a moment before it is told why.
  bool loss_told() const { return loss_told_; }

  // Why the lock was lost or is about to be, as far as it was told.
  std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_.empty() ? "the server did not answer, or this process was not running" : why_;
  }

 private:
  void OnRenewed(std::string_view, FencingToken) override { Nudge(); }
  void OnAtRisk(std::string_view, FencingToken, absl::Duration, const absl::Status& why) override {
    Set(std::string(why.message()));
  }
  void OnRecovered(std::string_view, FencingToken) override { Set({}); }
  void OnLost(const LostLease& lost) override {
    Set(lost.reason);
    loss_told_ = true;
    Nudge();
  }
  void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                       const absl::Status&) override {}  // the keeper says so
  void OnMisuse(std::string_view, std::string_view) override {}

  void Set(std::string why) {
    {
      const std::lock_guard lock(mutex_);
      why_ = std::move(why);
    }
    Nudge();
  }

  base::WakeEvent event_;
  std::atomic<bool> loss_told_ = false;
  mutable std::mutex mutex_;
  std::string why_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_NOTICES_H_
