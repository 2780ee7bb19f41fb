-- include: multi/common/survey

-- end_parts(grant): removes the grant from all queues and ends it at all names. Sets `ended` for
-- the names that it had, which are free then. Returns true if it was queued. Call this before
-- everything that needs memory.
local function end_parts(grant)
  local locks, queued = {}, false
  for i, name in ipairs(names) do
    if name.mine then
      locks[#locks + 1] = name.lock
      name.mine, name.ended, name.free, name.holder = false, true, true, ''
    end
    if name.record or i == 1 then
      queued = queued or name.rank ~= nil
      name.waiting = name.waiting - redis.call('ZREM', name.queue, grant)
      redis.call('HDEL', name.waiters, grant)
    end
  end
  if locks[1] then
    redis.call('DEL', unpack(locks))
  end
  return queued
end
