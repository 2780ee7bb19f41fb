-- include: redisson_fair_lock/common/queue
-- include: redisson_lock/common/named
-- call_head(): tells the first waiter that it may ask. It has a channel of its own.
local function call_head()
  local head = redis.call('LINDEX', queue, 0)
  if head then
    redis.call('PUBLISH', named('redisson_lock__channel') .. ':' .. head, '0')
  end
end
