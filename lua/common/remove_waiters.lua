-- remove_waiters(grants): as remove_waiter(), for a window of them at most.
local function remove_waiters(grants)
  if grants[1] then
    redis.call('ZREM', KEYS[2], unpack(grants))
    redis.call('HDEL', KEYS[3], unpack(grants))
  end
end
