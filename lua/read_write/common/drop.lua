-- include: common/remove_waiter

-- drop(hold): a waiter leaves the queue, and a writer's marker goes with it.
local function drop(hold)
  redis.call('ZREM', markers_key, hold)
  return remove_waiter(hold)
end
