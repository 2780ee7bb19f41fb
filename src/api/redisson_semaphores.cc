#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "redlatch/redisson/permit_expirable_semaphore.h"
#include "redlatch/redisson/semaphore.h"
#include "src/api/outcomes.h"
#include "src/base/error_address.h"
#include "src/base/utf8.h"
#include "src/lock/kinds.h"
#include "src/lock/lock_handle.h"
#include "src/lock/lock_type.h"

namespace redlatch::redisson {
namespace {

namespace kinds = internal::kinds;

internal::LockType TypeOf(std::string_view kind, std::string_view permits) {
  return {.scripts = lua::kRedissonSemaphoreScripts,
          .traits = {.kind = kind},
          .use = internal::GrantUse::kPermit,
          .noun = "semaphore",
          .busy = "too few of its permits are free",
          .keys = internal::KeyNames(kinds::kRedissonKeys.in_keys,
                                     {std::string(kinds::kYieldSuffix),
                                      std::string(kinds::kReadersSuffix), std::string(permits)})};
}

internal::LockType SemaphoreType() {
  return TypeOf(kinds::kRedissonSemaphore, kinds::kRedissonPermitsSuffix);
}

internal::LockType ExpirableType() {
  return TypeOf(kinds::kRedissonExpirableSemaphore, kinds::kRedissonPermits);
}

SemaphoreOptions WithoutTurns(SemaphoreOptions options) {
  options.turn = absl::ZeroDuration();
  return options;
}

}  // namespace

Semaphore::Semaphore(const Client& client, std::string_view name, SemaphoreOptions options)
    : Semaphore(client, name, std::move(options), SemaphoreType) {}

Semaphore::Semaphore(const Client& client, std::string_view name, SemaphoreOptions options,
                     internal::LockType (*type)())
    : redlatch::Semaphore(client, name, WithoutTurns(std::move(options)), type) {}

absl::StatusOr<std::string> Semaphore::Change(std::string_view how, int64_t permits) const {
  // Java counts permits in 32 bits. For the sum, the script checks that.
  if (how != "add" && (permits < 0 || permits > std::numeric_limits<int32_t>::max())) {
    return base::WithAddress(absl::InvalidArgumentError(
        absl::StrCat("semaphore ", base::Quoted(name()), ": a number of ", permits,
                     " permits is not possible; it must be 0 to 2147483647")));
  }
  const auto handle = Borrow();
  if (!handle.ok()) return handle.status();
  const std::vector<std::string> args = {std::string(how), absl::StrCat(permits)};
  const auto reply = (*handle)->Run(lua::kRedissonSemaphoreSetPermits, args);
  if (!reply.ok()) return reply.status();
  return reply->text;
}

absl::StatusOr<bool> Semaphore::TrySetPermits(int64_t permits) {
  const absl::StatusOr<std::string> reply = Change("try", permits);
  if (!reply.ok()) return reply.status();
  return reply->ends_with("set");
}

absl::Status Semaphore::AddPermits(int64_t permits) { return Change("add", permits).status(); }

absl::StatusOr<int64_t> Semaphore::AvailablePermits() const { return ReadCount(Change("free", 0)); }

PermitExpirableSemaphore::PermitExpirableSemaphore(const Client& client, std::string_view name,
                                                   SemaphoreOptions options)
    : Semaphore(client, name, std::move(options), ExpirableType) {}

absl::Status PermitExpirableSemaphore::SetPermits(int64_t permits) {
  return Change("set", permits).status();
}

}  // namespace redlatch::redisson
