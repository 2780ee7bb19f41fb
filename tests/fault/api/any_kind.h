// A lock of a kind that is named: to child processes, say.
#ifndef REDLATCH_TESTS_FAULT_API_ANY_KIND_H_
#define REDLATCH_TESTS_FAULT_API_ANY_KIND_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/multi_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "tests/support/any_lock.h"

namespace redlatch {

inline constexpr std::string_view kAllKinds[] = {"simple", "reentrant", "read_write", "semaphore",
                                                 "multi"};

inline support::AnyLock MakeLock(std::string_view kind, const Client& client,
                                 absl::Duration lease) {
  const LockOptions options = {.lease = lease};
  if (kind == "semaphore") {
    return {std::make_unique<Semaphore>(client, "lock", 1, SemaphoreOptions{lease}), 1};
  }
  std::unique_ptr<RedisLockBase> lock;
  if (kind == "simple") {
    lock = std::make_unique<SimpleLock>(client, "lock", options);
  } else if (kind == "multi") {
    lock = std::make_unique<MultiLock>(client, std::vector<std::string>{"lock", "lock.b", "lock.c"},
                                       options);
  } else if (kind == "reentrant") {
    lock = std::make_unique<ReentrantLock>(client, "lock", options);
  } else {
    lock = std::make_unique<ReentrantReadWriteLock>(client, "lock", options);
  }
  return support::AnyLock(std::move(lock));
}

}  // namespace redlatch

#endif  // REDLATCH_TESTS_FAULT_API_ANY_KIND_H_
