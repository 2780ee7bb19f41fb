-- include: multi/common/names

-- end_parts(all, grant): removes the grant from all queues; the names that it had are `ended` and
-- free. Returns whether it was queued. Comes before everything that needs memory.
local function end_parts(all, grant)
  local locks, queued = {}, false
  for i, name in ipairs(all) do
    if name.mine then
      locks[#locks + 1] = names[i][1]
      name.mine, name.ended, name.free, name.holder = false, true, true, ''
    end
    if name.record or i == 1 then
      queued = queued or name.rank ~= nil
      name.waiting = name.waiting - redis.call('ZREM', names[i][2], grant)
      redis.call('HDEL', names[i][3], grant)
    end
  end
  if locks[1] then
    redis.call('DEL', unpack(locks))
  end
  return queued
end
