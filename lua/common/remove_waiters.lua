-- remove_waiters(holds): a window of them at most.
local function remove_waiters(holds)
  if holds[1] then
    redis.call('ZREM', KEYS[2], unpack(holds))
    redis.call('HDEL', KEYS[3], unpack(holds))
  end
end
