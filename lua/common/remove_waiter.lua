-- remove_waiter(grant): removes a waiter from the queue and the records. Needs no memory.
local function remove_waiter(grant)
  local was_queued = redis.call('ZREM', KEYS[2], grant) == 1
  redis.call('HDEL', KEYS[3], grant)
  return was_queued
end
