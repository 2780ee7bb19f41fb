// What the API asks for, and how it reports outcomes: exceptions for the std calls, leases for the
// others.
#ifndef REDLATCH_SRC_API_OUTCOMES_H_
#define REDLATCH_SRC_API_OUTCOMES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "redlatch/lease.h"
#include "redlatch/status.h"
#include "src/base/atomic.h"
#include "src/base/error_address.h"
#include "src/lock/lock_handle.h"
#include "src/lock/users_code.h"

namespace redlatch {

[[noreturn]] inline void Throw(const absl::Status& status) {
  throw std::system_error(MakeErrorCode(status.code()), std::string(status.message()));
}

inline void ThrowIfFailed(const absl::Status& status) {
  if (!status.ok()) Throw(status);
}
// The same, but returns false if the lock is busy.
inline bool ThrowUnlessBusy(const absl::Status& status) {
  if (!IsBusy(status)) ThrowIfFailed(status);
  return status.ok();
}

// For a thread that would wait for itself.
[[noreturn]] inline void ThrowDeadlock(const absl::Status& status) {
  throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur),
                          std::string(status.message()));
}

// Reads the number with which a script's reply begins.
inline absl::StatusOr<int64_t> ReadCount(const absl::StatusOr<std::string>& reply) {
  if (!reply.ok()) return reply.status();
  int64_t count = 0;
  if (absl::SimpleAtoi(reply->substr(0, reply->find(' ')), &count)) return count;
  return base::WithAddress(absl::InternalError("a script's reply is not a count: " + *reply));
}

inline Hold HoldOf(internal::HoldRef ref) { return {std::move(ref.view), ref.token}; }

inline absl::StatusOr<Lease> LeaseOf(absl::StatusOr<internal::OwnedHold> owned) {
  if (!owned.ok()) return owned.status();
  const uint64_t id = owned->held.hold;
  return Lease(std::move(owned->handle), id, HoldOf(std::move(owned->held)));
}

// `wrap` makes a Lease or a Permit of the hold at once, so that the hold is released if the
// callback is never called. The memory for the result is allocated here, since the callback must
// not get lost.
template <class Wrap, class Callback>
internal::LockHandle::Finish FinishOf(Wrap wrap, Callback callback) {
  struct Told {
    [[no_unique_address]] Wrap wrap;
    Callback callback;
    std::optional<decltype(wrap(absl::StatusOr<internal::OwnedHold>()))> result = std::nullopt;
  };
  auto told = std::make_unique<Told>(Told{wrap, internal::NotNull(std::move(callback))});
  return [its = std::move(told)](absl::StatusOr<internal::OwnedHold> held) mutable {
    its->result.emplace(its->wrap(std::move(held)));
    return [its = std::move(its)] { std::move(its->callback)(*std::move(its->result)); };
  };
}

// What a call of a lock object or a semaphore asks for. `gone` is set when `object` is destroyed.
inline internal::AcquireCall CallOf(const AcquireOptions& options,
                                    const std::shared_ptr<const LockOptions>& of_object,
                                    const void* object, const base::Atomic<bool>& gone) {
  const absl::Duration lease = options.lease.value_or(of_object->lease);
  const absl::Duration at_least = options.at_least;
  return {.terms = {.lease = lease + of_object->grace,
                    .margin = internal::PackedDuration(internal::Margin(*of_object)),
                    .at_least = internal::PackedDuration(at_least),
                    .manual = options.lease.has_value(),
                    .whole = options.whole_lease || at_least > absl::ZeroDuration(),
                    .bounded = internal::IsBounded(*of_object)},
          .wait = options.wait,
          .stop = options.stop,
          .options = of_object,
          .object = object,
          .gone = &gone};
}

}  // namespace redlatch

#endif  // REDLATCH_SRC_API_OUTCOMES_H_
