// A semaphore that Java programs share through Redisson's RSemaphore.
#ifndef REDLATCH_REDISSON_SEMAPHORE_H_
#define REDLATCH_REDISSON_SEMAPHORE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/semaphore.h"

namespace redlatch::redisson {

// The same semaphore as `redisson.getSemaphore(name)` in Java.
//
//   redlatch::redisson::Semaphore slots(client, "transcoders");
//   if (auto set = slots.TrySetPermits(8); !set.ok()) return set.status();
//   absl::StatusOr<redlatch::Permit> slot = slots.Acquire(1, {.wait = 5min});
//
// Its number of free permits is a key in Redis. Until TrySetPermits() or AddPermits() is called, in
// either language, there are none. Waiters come in no order.
//
// A Java program that dies keeps its permits for ever: PermitExpirableSemaphore is safer. Permits
// of C++ programs have a lease, which the client renews. When it ends, the next C++ program that
// asks for a permit gives them back.
class REDLATCH_EXPORT Semaphore : private redlatch::Semaphore {
 public:
  Semaphore(const Client& client, std::string_view name, SemaphoreOptions options = {});

  // As those of redlatch::Semaphore. release() gives back only what this client has acquired.
  using redlatch::Semaphore::acquire;
  using redlatch::Semaphore::Acquire;
  using redlatch::Semaphore::AcquireAsync;
  using redlatch::Semaphore::AcquireAwaitable;
  using redlatch::Semaphore::AcquireCallback;
  using redlatch::Semaphore::Inspect;
  using redlatch::Semaphore::name;
  using redlatch::Semaphore::release;
  using redlatch::Semaphore::try_acquire;
  using redlatch::Semaphore::try_acquire_for;
  using redlatch::Semaphore::try_acquire_until;
  using redlatch::Semaphore::TryAcquire;

  // Sets how many permits there are, and returns true, unless that was set before. All numbers must
  // fit in Java's 32 bits.
  absl::StatusOr<bool> TrySetPermits(int64_t permits);
  // Adds permits, or takes some away if the number is negative. If the server's answer is lost
  // (kUnavailable), they may have been added.
  absl::Status AddPermits(int64_t permits);
  // How many permits are free.
  absl::StatusOr<int64_t> AvailablePermits() const;

 protected:
  // For the library.
  Semaphore(const Client& client, std::string_view name, SemaphoreOptions options,
            internal::LockType (*type)());
  absl::StatusOr<std::string> Change(std::string_view how, int64_t permits) const;
};

}  // namespace redlatch::redisson

#endif  // REDLATCH_REDISSON_SEMAPHORE_H_
