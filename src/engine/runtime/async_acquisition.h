#ifndef REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_ACQUISITION_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_ACQUISITION_H_

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "src/base/clock.h"
#include "src/engine/machine/acquisition.h"
#include "src/engine/runtime/async_driver.h"
#include "src/engine/runtime/async_script.h"
#include "src/engine/runtime/confirmation.h"
#include "src/engine/runtime/lock_session.h"

namespace redlatch::engine {

// The driver of an acquisition that no thread waits for: as LockSession::Acquire(), in steps. It
// refers to its machine's entry, and keeps neither lock nor client.
//
// It is an owner of its own: of a reentrant lock too it enters nothing that others hold, unless it
// names an Owner.
class AsyncAcquisition final : public AsyncTask, private Waker {
 public:
  // `entry` is referred to.
  AsyncAcquisition(AsyncDriver& driver, Entry& entry, Want want, LockSession::Finish finish,
                   LockSession::Elsewhere elsewhere, AsyncDriver::Whose whose);
  ~AsyncAcquisition() override;

  const void* object() const override { return want_.object; }
  std::stop_token stop() const override { return want_.stop; }

 private:
  enum class Phase : uint8_t {
    kBegins,
    kListens,   // for messages to be heard
    kRuns,      // `script_`
    kSleeps,    // until its waker is called, or `due_`
    kConfirms,  // until `confirmed_` arrives, or `due_`: a thread waits for replicas
    kPauses,    // until `due_`, after a server has lost what it was to confirm
    kDone,
  };

  bool Step(unsigned events, base::Instant now) override;
  base::Instant due() const override { return due_; }
  void Wake(bool through) override {
    driver_.Push(*this, through ? kWoken | kThrough : unsigned{kWoken});
  }

  void MakeAcquisition();
  bool Listen();
  // `woken`: by its waker, if it slept; else it may find that this is about to.
  void Resume(const Answer* answer, bool woken, base::Instant now);
  void Decided();
  void GoElsewhere();
  void Confirm();
  void Confirmed(const Answer& answer);
  void End(base::Instant now);
  void Finish(absl::StatusOr<Held> held);
  bool stopped() const { return gone_ || want_.stop.stop_requested(); }

  AsyncDriver& driver_;
  Core& core_;
  Entry* entry_;  // referred to
  Want want_;
  LockSession::Finish finish_;
  const LockSession::Elsewhere elsewhere_;
  const uint64_t thread_ = NextThreadNumber();
  base::Instant began_;
  base::Instant due_ = want_.wait > absl::ZeroDuration() ? began_ + want_.wait
                                                         : base::Instant::Infinite();
  base::Instant listens_since_;
  base::Instant deaf_at_;
  Phase phase_ = Phase::kBegins;
  const AsyncDriver::Whose whose_;
  bool gone_ = false;
  std::optional<Acquisition> acquisition_;
  std::unique_ptr<AsyncScript> script_;
  // What replicas have to confirm, and their answer on its way.
  std::optional<Confirmation> confirmation_;
  Held unconfirmed_;
  AsyncLetterPtr confirmed_;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_ASYNC_ACQUISITION_H_
