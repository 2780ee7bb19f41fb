-- include: redisson_fair_lock/common/queue
-- include: redisson_fair_lock/common/alive
-- include: redisson_fair_lock/common/move_up
-- leave(grant): gives up the place in the queue. Returns whether it had one.
local function leave(grant)
  local place = redis.call('LPOS', queue, grant)
  redis.call('ZREM', timeouts, grant)
  redis.call('ZREM', alive, grant)
  if not place then
    return false
  end
  move_up(redis.call('LRANGE', queue, place + 1, -1))
  redis.call('LREM', queue, 0, grant)
  return true
end
