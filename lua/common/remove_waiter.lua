-- remove_waiter(hold): from queue and records. Neither command needs memory: see the README.
local function remove_waiter(hold)
  local was_queued = redis.call('ZREM', KEYS[2], hold) == 1
  redis.call('HDEL', KEYS[3], hold)
  return was_queued
end
