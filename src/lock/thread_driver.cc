#include "src/lock/thread_driver.h"

#include <algorithm>
#include <new>
#include <optional>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace redlatch::internal {

void ThreadDriver::Drive(Operation& operation, std::optional<Operation::Action> begun) noexcept {
  using Kind = Operation::Action::Kind;
  const std::stop_callback on_stop(stop_, [&] {
    {
      const base::MutexLock lock(entry_.mu);
      if (!operation.NeedsWake()) return;
    }
    Wake();
  });
  Operation::Action action = begun ? *begun : Begin(operation);
  while (action.kind != Kind::kDone) {
    std::optional<Result> result;
    absl::Status subscribed_as;
    if (action.kind == Kind::kRun) {
      result = Run(operation.request(), action.until);
    } else if (action.kind == Kind::kConfirm) {
      result = core_.batches().Run(entry_, operation.request(), action.until);
    } else if (action.kind == Kind::kSubscribe) {
      subscribed_as = Subscribe(action.until);
    } else {
      // If the stop came before the operation was parked, nothing wakes the thread.
      Sleep(operation, Stopped() || Gone() ? base::Instant() : action.until);
    }
    action = Resume(operation,
                    {.result = result ? &*result : nullptr,
                     .subscribed_as = action.kind == Kind::kSubscribe ? &subscribed_as : nullptr});
  }
}

Operation::Action ThreadDriver::Resume(Operation& operation, Operation::Event event) noexcept {
  parker_.Arm();
  event.stopped = Stopped();
  event.gone = Gone();
  return core_.Resume(entry_, operation, event);
}

Result ThreadDriver::Run(const Request& request, base::Instant until) noexcept {
  return OrNoMemory([&] {
    const auto wanted = [&] {
      const base::MutexLock lock(entry_.mu);
      return entry_.state.IsWanted(request);
    };
    Result result = core_.runner().Run(core_.SubjectOf(entry_), request, until, wanted);
    core_.NoteAnswer(entry_, request, result);
    return result;
  });
}

absl::Status ThreadDriver::Subscribe(base::Instant until) noexcept try {
  return core_.Subscribe(entry_, until);
} catch (const std::bad_alloc&) {
  return base::NoMemory();
}

void ThreadDriver::Sleep(Operation& operation, base::Instant until) {
  if (core_.server_group().Await(entry_.keys.main(), parker_, until) != base::Parker::kArmed)
    return;
  {
    const base::MutexLock lock(entry_.mu);
    if (!operation.Overslept()) return;
  }
  parker_.ParkUntil(base::Instant::Infinite());
}

}  // namespace redlatch::internal
