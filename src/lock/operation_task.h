#ifndef REDLATCH_SRC_LOCK_OPERATION_TASK_H_
#define REDLATCH_SRC_LOCK_OPERATION_TASK_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/lock/entry.h"
#include "src/lock/event_driver.h"
#include "src/lock/lock_handle.h"
#include "src/lock/state/acquire_operation.h"
#include "src/lock/state/hold_state.h"
#include "src/lock/state/release_operation.h"
#include "src/lock/state/script_operation.h"

namespace redlatch::internal {

// Executes an operation on the event driver, as ThreadDriver does on a thread.
class OperationTask : public EventTask, public Waker {
 public:
  ~OperationTask() override;
  void Wake() override { driver_.Push(*this, kWoken); }

 protected:
  // `entry` has a reference for this object. `action` is what the operation has already asked for.
  // `due`: when it must be stepped even if too many requests are in flight.
  OperationTask(EventDriver& driver, Entry& entry, Operation::Action action = kResume,
                base::Instant due = base::Instant::Infinite());
  static constexpr Operation::Action kResume{.kind = Operation::Action::Kind::kSleep, .until = {}};

  virtual Operation& operation() = 0;
  // The operation is done. Returns true if another one has taken its place.
  virtual bool End() = 0;
  bool gone() const { return gone_; }

  EventDriver& driver_;
  Entry* entry_;

 private:
  bool Step(unsigned events, base::Instant now) override;
  base::Instant due() const override { return due_; }
  bool Execute(Operation::Event& event, bool ends, base::Instant now);
  bool Subscribe(Operation::Event& event, bool ends);
  bool Run(Operation::Event& event, bool ends, base::Instant now);
  void BeginRun(base::Instant now);
  bool Send();
  bool TakeReply(base::Instant now);
  bool MayPass() const;

  struct Running;  // the request of kRun or kConfirm

  Operation::Action action_;
  base::Instant due_;
  bool gone_ = false;
  absl::Status subscribed_as_;
  std::unique_ptr<Running> running_;  // null while the task sleeps, to save memory
};

// An acquisition without a thread. It is an owner of its own: even on a reentrant lock, it enters
// no other hold unless it names an Owner. It keeps neither the lock object nor the client alive.
class AcquireTask final : public OperationTask {
 public:
  AcquireTask(EventDriver& driver, Entry& entry, AcquireCall call, LockHandle::Finish finish,
              LockHandle::Elsewhere elsewhere, EventDriver::Whose whose);

  const void* object() const override { return call_.object; }
  std::stop_token stop() const override { return call_.stop; }

 private:
  Operation& operation() override;
  bool End() override;

  AcquireCall call_;
  const uint64_t thread_ = NextThreadNumber();  // here it fills a gap
  LockHandle::Finish finish_;
  const LockHandle::Elsewhere elsewhere_;
  const EventDriver::Whose whose_;
  std::optional<AcquireOperation> operation_;
};

// A release without a thread.
class ReleaseTask final : public OperationTask {
 public:
  // `then` may be null if the outcome is not needed.
  ReleaseTask(EventDriver& driver, Entry& entry, ReleaseOperation operation,
              Operation::Action action, HoldOwner::Then then)
      : OperationTask(driver, entry, action),
        operation_(std::move(operation)),
        then_(std::move(then)) {}

 private:
  Operation& operation() override { return operation_; }
  bool End() override;

  ReleaseOperation operation_;
  HoldOwner::Then then_;
};

// A script without a thread.
class ScriptTask final : public OperationTask {
 public:
  using Then = absl::AnyInvocable<void(absl::StatusOr<std::string>) &&>;

  // `object` is the lock object that began it. `then` is called as a completion of the library.
  ScriptTask(EventDriver& driver, Entry& entry, ScriptOperation::Call call, const void* object,
             std::stop_token stop, Then then)
      : OperationTask(driver, entry),
        operation_(std::move(call)),
        object_(object),
        stop_(std::move(stop)),
        told_(new Told{std::move(then), absl::UnknownError("")}) {}

  const void* object() const override { return object_; }
  std::stop_token stop() const override { return stop_; }

 private:
  Operation& operation() override { return operation_; }
  bool End() override;

  ScriptOperation operation_;
  const void* const object_;
  const std::stop_token stop_;
  // Allocated before the script runs: a completion that owns this needs no memory of its own.
  struct Told {
    Then then;
    absl::StatusOr<std::string> outcome;
  };
  std::unique_ptr<Told> told_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_OPERATION_TASK_H_
