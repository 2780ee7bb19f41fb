-- include: redisson_lock/common/named
-- call(waiter): tells a waiter that it may ask. Each has a channel of its own.
local function call(waiter)
  redis.call('PUBLISH', named('redisson_lock__channel') .. ':' .. waiter, '0')
end
