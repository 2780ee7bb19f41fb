-- include: multi/common/names

-- end_parts(all, hold): the grant that was surveyed leaves all queues, and the names that it had
-- have `ended`, and are free. Answers whether it was queued. It comes before all that needs memory.
local function end_parts(all, hold)
  local locks, queued = {}, false
  for i, name in ipairs(all) do
    if name.mine then
      locks[#locks + 1] = names[i][1]
      name.mine, name.ended, name.free, name.holder = false, true, true, ''
    end
    if name.record or i == 1 then
      queued = queued or name.rank ~= nil
      name.waiting = name.waiting - redis.call('ZREM', names[i][2], hold)
      redis.call('HDEL', names[i][3], hold)
    end
  end
  if locks[1] then
    redis.call('DEL', unpack(locks))
  end
  return queued
end
