#include "src/lock/thread_driver.h"

#include <algorithm>
#include <new>
#include <optional>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace redlatch::internal {

void ThreadDriver::Drive(Operation& operation) noexcept {
  const std::stop_callback on_stop(stop_, [&] {
    {
      const base::MutexLock lock(entry_.mu);
      if (!operation.NeedsWake()) return;
    }
    Wake();
  });
  Finish(operation, Begin(operation));
}

void ThreadDriver::Finish(Operation& operation, Operation::Action action) noexcept {
  using Kind = Operation::Action::Kind;
  const std::string_view key = entry_.keys.main();
  while (action.kind != Kind::kDone) {
    switch (action.kind) {
      case Kind::kSubscribe: {
        absl::Status status;
        try {
          status = core_.server_group().Subscribe(key, action.until, stop_);
        } catch (const std::bad_alloc&) {
          status = base::NoMemory();
        }
        action = Resume(operation, {.subscribed_as = &status});
        break;
      }
      case Kind::kRun:
        action = Run(operation, action.until);
        break;
      case Kind::kConfirm: {
        const Result result = core_.batches().Run(entry_, operation.request(), action.until);
        action = Resume(operation, {.result = &result});
        break;
      }
      case Kind::kSleep:
        // If the stop came before the operation was parked, nothing wakes the thread.
        Sleep(operation, Stopped() || Gone() ? base::Instant() : action.until);
        action = Resume(operation, {});
        break;
      case Kind::kDone:
        break;
    }
  }
}

Operation::Action ThreadDriver::Resume(Operation& operation, Operation::Event event) noexcept {
  parker_.Arm();
  event.stopped = Stopped();
  event.gone = Gone();
  return core_.Resume(entry_, operation, event);
}

Operation::Action ThreadDriver::Run(Operation& operation, base::Instant until) noexcept {
  const Request& request = operation.request();
  // The request will be queued, so its result would only wake this thread. It is read only if no
  // grant comes soon.
  if (request.unread_for > absl::ZeroDuration() &&
      core_.server_group().subscription(entry_.keys.main()).live) {
    const auto decided_meanwhile = [&] {
      return SleepWhileInFlight(operation, std::min(until, request.sent + request.unread_for));
    };
    std::optional<Result> result;
    if (core_.RunAndRead(entry_, request, decided_meanwhile, until, result)) {
      return Resume(operation, {.result = result ? &*result : nullptr});
    }
  }
  const Result result = core_.Run(entry_, request, until);
  return Resume(operation, {.result = &result});
}

// Returns true if the operation was decided.
bool ThreadDriver::SleepWhileInFlight(Operation& operation, base::Instant until) {
  {
    const base::MutexLock lock(entry_.mu);
    if (operation.decided()) return true;
    operation.Park();
  }
  Sleep(operation, until);
  const base::MutexLock lock(entry_.mu);
  return operation.decided();
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
