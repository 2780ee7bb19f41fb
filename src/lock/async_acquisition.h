#ifndef REDLATCH_SRC_LOCK_ASYNC_ACQUISITION_H_
#define REDLATCH_SRC_LOCK_ASYNC_ACQUISITION_H_

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "src/base/clock.h"
#include "src/lock/async_script.h"
#include "src/lock/confirmation.h"
#include "src/lock/event_driver.h"
#include "src/lock/lock_handle.h"
#include "src/lock/state/acquire_operation.h"

namespace redlatch::internal {

// The driver of an acquisition that no thread waits for: as LockSession::Acquire(), in steps. It
// refers to its machine's entry, and keeps neither lock nor client.
//
// It is an owner of its own: of a reentrant lock too it enters nothing that others hold, unless it
// names an Owner.
class AsyncAcquisition final : public AsyncTask, private Waker {
 public:
  // `entry` is referred to.
  AsyncAcquisition(EventDriver& driver, Entry& entry, Want want, LockHandle::Finish finish,
                   LockHandle::Elsewhere elsewhere, EventDriver::Whose whose);
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
  void Resume(const Result* result, bool woken, base::Instant now);
  void Decided();
  void GoElsewhere();
  void Confirm();
  void Confirmed(const Result& result);
  void End(base::Instant now);
  void Finish(absl::StatusOr<HoldRef> held);
  bool stopped() const { return gone_ || want_.stop.stop_requested(); }

  EventDriver& driver_;
  ClientCore& core_;
  Entry* entry_;  // referred to
  Want want_;
  LockHandle::Finish finish_;
  const LockHandle::Elsewhere elsewhere_;
  const uint64_t thread_ = NextThreadNumber();
  base::Instant began_;
  base::Instant due_ = want_.wait > absl::ZeroDuration() ? began_ + want_.wait
                                                         : base::Instant::Infinite();
  base::Instant listens_since_;
  base::Instant deaf_at_;
  Phase phase_ = Phase::kBegins;
  const EventDriver::Whose whose_;
  bool gone_ = false;
  std::optional<AcquireOperation> operation_;
  std::unique_ptr<AsyncScript> script_;
  // What replicas have to confirm, and their answer on its way.
  std::optional<Confirmation> confirmation_;
  HoldRef unconfirmed_;
  AsyncReplyPtr confirmed_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ASYNC_ACQUISITION_H_
