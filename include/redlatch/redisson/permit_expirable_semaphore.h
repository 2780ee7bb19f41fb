// A semaphore that Java programs share through Redisson's RPermitExpirableSemaphore.
#ifndef REDLATCH_REDISSON_PERMIT_EXPIRABLE_SEMAPHORE_H_
#define REDLATCH_REDISSON_PERMIT_EXPIRABLE_SEMAPHORE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/redisson/semaphore.h"

namespace redlatch::redisson {

// The same semaphore as `redisson.getPermitExpirableSemaphore(name)` in Java: a Semaphore whose
// permits have ids and expire, in both languages. A permit of a C++ program has a lease, which the
// client renews, so it comes back if the program dies.
//
// Java programs compare the ends of leases with their own clocks. If a Java host's clock is ahead
// by more than what is left of a lease, it takes the permit away too soon. C++ programs use the
// server's clock.
class REDLATCH_EXPORT PermitExpirableSemaphore final : public Semaphore {
 public:
  PermitExpirableSemaphore(const Client& client, std::string_view name,
                           SemaphoreOptions options = {});

  // Sets how many permits there are, free and taken.
  absl::Status SetPermits(int64_t permits);
};

}  // namespace redlatch::redisson

#endif  // REDLATCH_REDISSON_PERMIT_EXPIRABLE_SEMAPHORE_H_
