// The lock of 06-a-lock-of-your-own.md that refuses a request although it is free, and a program
// that checks it.
#include <thread>

#include "absl/time/clock.h"
#include "docs/code/expect.h"

// [turns]
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "redlatch/redis_lock_base.h"

// Its last owner does not get it again, even if it is free. The key "last" names that owner.
inline constexpr char kInTurn[] = R"lua(
-- replaces: common/eligible
local function eligible(request)
  return redis.call('GET', KEYS[#KEYS]) ~= request.owner
end
-- replaces: simple/common/take
local function take(request, lease_ms)
  redis.call('SET', KEYS[1], request.grant, 'PX', lease_ms)
  redis.call('SET', KEYS[#KEYS], request.owner, 'PX', '86400000')
end
)lua";

class TurnLock final : public redlatch::RedisLockBase {
 public:
  TurnLock(const redlatch::Client& client, std::string_view name,
           redlatch::LockOptions options = {})
      : RedisLockBase(client, name, std::move(options)) {}

  using RedisLockBase::AcquireAs;

 private:
  redlatch::LockScripts Scripts() const override {
    static const std::string acquire = absl::StrCat(kInTurn, "-- include: simple/common/acquire\n");
    static const std::string release = absl::StrCat(kInTurn, "-- include: simple/common/release\n");
    static const std::string cancel = absl::StrCat(kInTurn, "-- include: simple/cancel\n");
    static const std::string force = absl::StrCat(kInTurn, "-- include: simple/force_release\n");
    return {.acquire = {.name = "turns/acquire", .body = acquire},
            .release = {.name = "turns/release", .body = release},
            .renew = {.name = "turns/renew", .body = "-- include: simple/renew\n"},
            .cancel = {.name = "turns/cancel", .body = cancel},
            .inspect = {.name = "turns/inspect", .body = "-- include: simple/inspect\n"},
            .force_release = {.name = "turns/force_release", .body = force}};
  }
  redlatch::LockTraits Traits() const override { return {.kind = "turns", .owners = true}; }
  std::vector<std::string> ExtraKeys() const override { return {"last"}; }
};
// [/turns]

int main() {
  const redlatch::Client client = Connected();
  TurnLock lock(client, "floor");
  const redlatch::Owner left("left"), right("right");
  const auto had = [&](const redlatch::Owner& owner, absl::Duration wait) {
    absl::StatusOr<redlatch::Lease> lease = lock.AcquireAs(owner, {.wait = wait});
    return lease.ok() ? lease->Release() : lease.status();
  };
  ExpectOk(had(left, absl::Seconds(20)));
  Expect(absl::IsDeadlineExceeded(had(left, absl::ZeroDuration())));
  ExpectOk(had(right, absl::Seconds(20)));

  // One owner waits although the lock is free. That does not keep out the client's other owner.
  absl::Status waited;
  {
    std::jthread waiter([&] { waited = had(right, absl::Seconds(20)); });
    while (lock.Inspect()->waiting == 0) absl::SleepFor(absl::Milliseconds(1));
    ExpectOk(had(left, absl::Seconds(20)));
  }
  ExpectOk(waited);
}
