#include "redlatch/reentrant_read_write_lock.h"

#include <utility>

#include "lua/scripts.h"
#include "src/lock/kinds.h"

namespace redlatch {

namespace kinds = internal::kinds;

ReentrantReadWriteLock::ReentrantReadWriteLock(const Client& client, std::string_view name,
                                               LockOptions options, Policy policy)
    : ReadWriteLockBase(client, name, std::move(options), &kinds::kReadWriteKeys),
      policy_(policy) {}

ReadWriteLockBase::~ReadWriteLockBase() = default;

ReentrantReadWriteLock::~ReentrantReadWriteLock() = default;

LockScripts ReentrantReadWriteLock::Scripts() const { return lua::kReadWriteScripts; }

LockScripts ReentrantReadWriteLock::SharedScripts() const {
  return {
      .acquire = lua::kReadWriteAcquireRead,
      .release = lua::kReadWriteReleaseRead,
      .renew = lua::kReadWriteRenewRead,
      .cancel = lua::kReadWriteCancelRead,
      .inspect = lua::kReadWriteInspect,
      .force_release = lua::kReadWriteForceRelease,
  };
}

LockTraits ReentrantReadWriteLock::Traits() const {
  // Often, since a writer that dies while it waits keeps readers out until its heartbeat is
  // overdue.
  return {.kind = kinds::kReadWrite,
          .reentrant = true,
          .longest_heartbeat = absl::Seconds(2),
          .cacheable = true};
}

std::vector<std::string> ReentrantReadWriteLock::ExtraKeys() const {
  return {std::string(kinds::kReadersSuffix), std::string(kinds::kWritersSuffix),
          std::string(kinds::kWriteHoldsSuffix)};
}

std::vector<std::string> ReentrantReadWriteLock::ExtraArgs() const {
  return {policy_ == Policy::kPhaseFair ? "phase_fair" : "writer_first"};
}

}  // namespace redlatch
