-- include: redisson_fair_lock/common/queue
-- include: redisson_fair_lock/common/wait_ms
-- move_up(now): the first 64 waiters keep their places for no longer than if they came now.
-- Redisson takes one wait_timeout off the times of all that wait behind one that leaves.
local function move_up(now)
  local ends, times = now + math.max(redis.call('PTTL', KEYS[1]), 0), {}
  for _, waiter in ipairs(redis.call('LRANGE', queue, 0, 63)) do
    ends = ends + wait_ms
    times[#times + 1] = ends
    times[#times + 1] = waiter
  end
  if #times > 0 then
    redis.call('ZADD', timeouts, 'XX', 'LT', unpack(times))
  end
end
