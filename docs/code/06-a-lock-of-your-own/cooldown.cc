// The pieces of 06-a-lock-of-your-own.md, and a program that runs them.
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "docs/code/expect.h"
#include "redlatch/run_locked.h"
#include "redlatch/simple_lock.h"

// [common]
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "redlatch/redis_lock_base.h"

// What all six scripts begin with.
//   N            hash: kind, hold, token, cooldown; lives as long as the lease
//   {N}:cooling  string: lives a cool-down longer
const std::string kCommon = R"lua(
local lock, fence, cooling = KEYS[1], KEYS[4], KEYS[#KEYS]
local kind = redis.call('HGET', lock, 'kind')
if not kind and redis.call('EXISTS', lock) == 1 or kind and kind ~= 'cooldown' then
  return redis.error_reply('WRONGTYPE ' .. lock .. ' is another kind of lock')
end
local holder = kind and redis.call('HGET', lock, 'hold')

-- The lock lives for lease_ms more, the cool-down longer; neither is ever shortened.
local function extend(lease_ms)
  redis.call('PEXPIRE', lock, lease_ms, 'GT')
  redis.call('PEXPIRE', cooling, lease_ms + redis.call('HGET', lock, 'cooldown'), 'GT')
end

-- Nobody has the lock, and the cool-down begins. No command here needs memory.
local function finish()
  local cooldown_ms = redis.call('HGET', lock, 'cooldown')
  redis.call('DEL', lock)
  redis.call('PEXPIRE', cooling, cooldown_ms)
end
)lua";
// [/common]

// [acquire]
// KEYS[5] exists where this hold was given up. ARGV: hold, lease_ms, the terms, owner, cooldown_ms.
const std::string kAcquire = kCommon + R"lua(
if redis.call('EXISTS', KEYS[5]) == 1 then
  return 'gone'
end
local hold, lease_ms, cooldown_ms = ARGV[1], ARGV[2], ARGV[5]
local wait, manual = string.match(ARGV[3], '^%d+ %d+ ([01]) %d+ ([01]) ')

if holder == hold then  -- a repeat, since no answer arrived: one acquisition, with one token
  if manual == '0' then
    extend(lease_ms)
  end
  return 'granted ' .. redis.call('HGET', lock, 'token') .. ' ' .. redis.call('PTTL', lock) .. ' 0'
end

local rest_ms = redis.call('PTTL', cooling)
if holder or rest_ms ~= -2 then
  return wait == '1' and 'queued ' .. rest_ms .. ' 0 0' or 'busy ' .. rest_ms
end

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local token = string.format('%.0f', math.max(now_us, (redis.call('GET', fence) or 0) + 1))
redis.call('HSET', lock, 'kind', 'cooldown', 'hold', hold, 'token', token, 'cooldown', cooldown_ms)
redis.call('PEXPIRE', lock, lease_ms)
redis.call('SET', cooling, '', 'PX', lease_ms + cooldown_ms)
redis.call('SET', fence, token, 'PX', lease_ms + 86400000)
return 'granted ' .. token .. ' ' .. lease_ms .. ' 0'
)lua";
// [/acquire]

// [release]
// ARGV: hold; or hold, 'last_used last_reserved gone_ms', owner, and perhaps all of an acquire.
const std::string kRelease = kCommon + R"lua(
local gone_ms = string.match(ARGV[2] or '', '%d+$') or '0'
local held = holder == ARGV[1]
if held then
  finish()
end
if gone_ms ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', gone_ms)
end
if not held then
  return 'not_held'
end
-- A client whose threads wait asks for them at once. What it would hear is known: it cools.
local wait = ARGV[6] and string.match(ARGV[6], '^%d+ %d+ ([01]) ')
if not wait then
  return 'released'
end
local rest_ms = redis.call('PTTL', cooling)
return wait == '1' and 'released queued ' .. rest_ms .. ' 0 0' or 'released busy ' .. rest_ms
)lua";

// ARGV: hold, lease_ms.
const std::string kRenew = kCommon + R"lua(
if holder ~= ARGV[1] then
  return 'not_held'
end
extend(ARGV[2])
return 'held'
)lua";

// The hold is not wanted any more. Nobody worked under it, so nothing cools. ARGV: hold, gone_ms.
const std::string kCancel = kCommon + R"lua(
if holder == ARGV[1] then
  redis.call('DEL', lock, cooling)
end
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ARGV[2])
end
return holder == ARGV[1] and 'passed_on' or 'unknown'
)lua";
// [/release]

// [people]
const std::string kInspect = kCommon + R"lua(
local holders = {}
if holder then
  holders[1] = {holder, string.sub(holder, 1, 32), redis.call('PTTL', lock)}
end
return {'cooldown', redis.call('GET', fence) or '0', holders, 0, {}}
)lua";

// ARGV: what a client's channel begins with.
const std::string kForceRelease = kCommon + R"lua(
if not holder then
  return {'free'}
end
finish()
redis.call('PUBLISH', ARGV[1] .. string.sub(holder, 1, 32), 'forced ' .. holder .. ' ' .. lock)
return {'released', holder}
)lua";
// [/people]

// [class]
// A lock that nobody gets until `cooldown` after its last holder let go of it, or died.
class CooldownLock final : public redlatch::RedisLockBase {
 public:
  CooldownLock(redlatch::Client client, std::string_view name, absl::Duration cooldown,
               redlatch::LockOptions options = {})
      : RedisLockBase(std::move(client), name, AskTheServerAlways(std::move(options))),
        cooldown_ms_(std::max<int64_t>(1, absl::ToInt64Milliseconds(cooldown))) {}

 private:
  // Within the local window threads pass a lock on among themselves: here they must not.
  static redlatch::LockOptions AskTheServerAlways(redlatch::LockOptions options) {
    options.local_window = absl::ZeroDuration();
    return options;
  }

  redlatch::LockScripts Scripts() const override {
    return {.acquire = {.name = "cooldown/acquire", .body = kAcquire},
            .release = {.name = "cooldown/release", .body = kRelease},
            .renew = {.name = "cooldown/renew", .body = kRenew},
            .cancel = {.name = "cooldown/cancel", .body = kCancel},
            .inspect = {.name = "cooldown/inspect", .body = kInspect},
            .force_release = {.name = "cooldown/force_release", .body = kForceRelease}};
  }
  redlatch::LockTraits Traits() const override {
    return {.kind = "cooldown", .longest_heartbeat = absl::Seconds(1)};
  }
  std::vector<std::string> ExtraKeys() const override { return {"cooling"}; }
  std::vector<std::string> ExtraArgs() const override { return {absl::StrCat(cooldown_ms_)}; }

  const int64_t cooldown_ms_;
};
// [/class]

// [use]
#include <cstdio>

#include "redlatch/client.h"

// Whoever runs it and however often: no two downloads at a time, and ten minutes between them.
void Download(const redlatch::Client& client) {
  CooldownLock lock(client, "weather", absl::Minutes(10));
  absl::StatusOr<redlatch::Lease> lease = lock.TryAcquire();
  if (!lease.ok()) {
    std::puts("not now");
    return;
  }
  std::puts("downloading");
}
// [/use]

// Output: downloading
// Output: not now
int main() {
  const redlatch::Client client = Connected();
  const redlatch::Client other = Connected();
  Download(client);
  Download(client);
  Download(other);

  constexpr absl::Duration kCooldown = absl::Milliseconds(500);
  constexpr absl::Duration kGrain = absl::Milliseconds(2);  // the server counts in milliseconds
  const redlatch::AcquireOptions patient = {.wait = absl::Seconds(20)};
  CooldownLock here(client, "a", kCooldown);
  CooldownLock there(other, "a", kCooldown);

  // Who waits gets it when the cool-down is over, not before, and long before the lease would be.
  absl::StatusOr<redlatch::Lease> lease = here.Acquire();
  ExpectOk(lease.status());
  Expect(there.Inspect()->holders.size() == 1 && there.Inspect()->kind == "cooldown");
  Expect(absl::IsDeadlineExceeded(there.TryAcquire().status()));
  std::jthread other_waits([&] {
    absl::StatusOr<redlatch::Lease> next = there.Acquire(patient);
    ExpectOk(next.status());
    Expect(next->fencing_token() > lease->fencing_token());
    ExpectOk(next->Release());
  });
  const absl::Time released = absl::Now();
  ExpectOk(lease->Release());
  Expect(absl::IsDeadlineExceeded(here.TryAcquire().status()));
  other_waits.join();
  Expect(absl::Now() - released >= kCooldown - kGrain);

  // Threads of one client come one after another, too, each after a cool-down.
  CooldownLock shared(client, "b", absl::Milliseconds(100));
  const absl::Time began = absl::Now();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      ExpectOk(redlatch::RunLocked(shared, patient, [](auto) { return absl::OkStatus(); }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  Expect(absl::Now() - began >= 3 * (absl::Milliseconds(100) - kGrain));

  // A dead holder is followed by a cool-down, too.
  const absl::Time died = absl::Now();
  absl::StatusOr<redlatch::Lease> left =
      CooldownLock(client, "c", kCooldown).Acquire({.lease = absl::Milliseconds(100)});
  ExpectOk(left.status());
  ExpectOk(CooldownLock(other, "c", kCooldown).Acquire(patient).status());
  Expect(absl::Now() - died >= absl::Milliseconds(100) + kCooldown - kGrain);
  Expect(left->lost().stop_requested());

  // Renewed for as long as it is held; forced, and told so; and of its own kind.
  CooldownLock renewed(client, "d", kCooldown, {.lease = absl::Seconds(2)});
  absl::StatusOr<redlatch::Lease> kept = renewed.Acquire();
  ExpectOk(kept.status());
  const absl::Time first_end = absl::Now() + kept->remaining();
  while (absl::Now() + kept->remaining() < first_end + absl::Milliseconds(100)) {
    Expect(kept->valid());
    absl::SleepFor(absl::Milliseconds(5));
  }
  Expect(!redlatch::SimpleLock(other, "d").TryAcquire().ok());
  ExpectOk(renewed.ForceRelease());
  while (!kept->lost().stop_requested()) absl::SleepFor(absl::Milliseconds(1));
  Expect(absl::IsAborted(kept->Release()));

  redlatch::SimpleLock simple(client, "e");
  absl::StatusOr<redlatch::Lease> taken = simple.Acquire();
  Expect(absl::IsFailedPrecondition(CooldownLock(other, "e", kCooldown).TryAcquire().status()));
}
