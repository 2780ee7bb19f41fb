// The lock of docs/tutorials/06-a-lock-of-your-own.md. The waiter with the highest priority gets it
// first.
#ifndef REDLATCH_DOCS_CODE_PRIORITY_LOCK_H_
#define REDLATCH_DOCS_CODE_PRIORITY_LOCK_H_

// [class]
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "redlatch/redis_lock_base.h"

// A waiter's ticket is its place in the queue: 9 - priority, followed by the server's time in us.
// So waiters of one priority come in the order in which they asked. A ticket of 0 asks for a new
// one.
inline constexpr char kRank[] = R"lua(
local function rank(terms, priority)
  local before, after = string.match(ARGV[terms] or '', '^(%d+ %d+ [01] %d+ [01]) 0 (.*)$')
  if before then
    local time = redis.call('TIME')
    local ticket = (9 - (ARGV[priority] or 5)) * 1e15 + (time[1] * 1e6 + time[2]) % 1e15
    ARGV[terms] = before .. string.format(' %.0f ', ticket) .. after
  end
end
)lua";

class PriorityLock final : public redlatch::RedisLockBase {
 public:
  PriorityLock(const redlatch::Client& client, std::string_view name,
               redlatch::LockOptions options = {})
      : RedisLockBase(client, name, std::move(options)) {}

  // 0 to 9. Acquire() and lock() have priority 5.
  absl::StatusOr<redlatch::Lease> AcquireWithPriority(
      int priority, const redlatch::AcquireOptions& options = {}) {
    return AcquireBy({.args = {absl::StrCat(priority)}}, options);
  }

 private:
  redlatch::LockScripts Scripts() const override {
    static const std::string acquire =
        absl::StrCat(kRank, "rank(3, 5)\n-- include: simple/acquire\n");
    static const std::string release =
        absl::StrCat(kRank, "rank(6, 8)\n-- include: simple/release\n");
    return {.acquire = {.name = "priority/acquire", .body = acquire},
            .release = {.name = "priority/release", .body = release},
            .renew = {.name = "priority/renew", .body = "-- include: simple/renew\n"},
            .cancel = {.name = "priority/cancel", .body = "-- include: simple/cancel\n"},
            .inspect = {.name = "priority/inspect", .body = "-- include: simple/inspect\n"},
            .force_release = {.name = "priority/force_release",
                              .body = "-- include: simple/force_release\n"}};
  }
  redlatch::LockTraits Traits() const override { return {.kind = "priority"}; }
};
// [/class]

#endif  // REDLATCH_DOCS_CODE_PRIORITY_LOCK_H_
