-- include: redisson_fair_lock/common/queue
-- include: redisson_fair_lock/common/alive
-- include: redisson_fair_lock/common/move_up
-- include: redisson_lock/common/now_ms
-- leave(grant): gives up the place in the queue. Returns whether it had one.
local function leave(grant)
  redis.call('ZREM', alive, grant)
  if redis.call('ZREM', timeouts, grant) == 0 then
    return false
  end
  redis.call('LREM', queue, 1, grant)  -- Redisson's queue is a list, so this takes O(n)
  move_up(now_ms())
  return true
end
