-- remove_waiters(grants): does what remove_waiter() does, for a window of waiters at most.
local function remove_waiters(grants)
  if grants[1] then
    redis.call('ZREM', KEYS[2], unpack(grants))
    redis.call('HDEL', KEYS[3], unpack(grants))
  end
end
