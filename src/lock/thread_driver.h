#ifndef REDLATCH_SRC_LOCK_THREAD_DRIVER_H_
#define REDLATCH_SRC_LOCK_THREAD_DRIVER_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/lock/client_core.h"
#include "src/lock/entry.h"
#include "src/lock/state/operation.h"

namespace redlatch::internal {

// Drives an operation with the calling thread: the thread runs its requests, and sleeps. It decides
// nothing but when a reply is read.
class ThreadDriver final : public Waker {
 public:
  // `gone`: set when the lock object is destroyed, or null.
  ThreadDriver(ClientCore& core, Entry& entry, std::stop_token stop = {},
               const base::Atomic<bool>* gone = nullptr)
      : core_(core), entry_(entry), stop_(std::move(stop)), gone_(gone) {}
  ThreadDriver(const ThreadDriver&) = delete;
  ThreadDriver& operator=(const ThreadDriver&) = delete;

  // Drives it to its end. A caller that may hand the operation to another driver begins it before,
  // and passes the action that Begin() returned.
  Operation::Action Begin(Operation& operation) noexcept { return Resume(operation, {}); }
  void Drive(Operation& operation, std::optional<Operation::Action> begun = {}) noexcept;

  // Runs a request of the entry on the calling thread.
  Result Run(const Request& request, base::Instant until) noexcept;
  void Wake() override { parker_.Set(kWoken); }

 private:
  static constexpr uint32_t kWoken = 1;

  bool Stopped() const { return stop_.stop_requested(); }
  bool Gone() const { return gone_ != nullptr && *gone_; }
  Operation::Action Resume(Operation& operation, Operation::Event event) noexcept;
  absl::Status Subscribe(base::Instant until) noexcept;
  void Sleep(Operation& operation, base::Instant until);

  ClientCore& core_;
  Entry& entry_;
  const std::stop_token stop_;
  const base::Atomic<bool>* const gone_;
  base::Parker parker_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_THREAD_DRIVER_H_
