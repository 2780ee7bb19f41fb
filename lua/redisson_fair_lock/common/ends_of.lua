-- include: redisson_fair_lock/common/queue
-- include: redisson_fair_lock/common/alive
-- ends_of(waiter): when the waiter loses its place; 0 if that is not known, as after an eviction.
local function ends_of(waiter)
  local ends = tonumber(redis.call('ZSCORE', timeouts, waiter) or 0)
  local client = string.match(waiter, '^(%x+):%d+$')
  if client and #client == 32 then
    ends = math.min(ends, redis.call('ZSCORE', alive, waiter) or 0)
  end
  return ends
end
