-- include: redisson_semaphore/common/taken
-- include: redisson_lock/common/begin_yield
-- include: redisson_lock/common/named
-- include: redisson_semaphore/common/yield_key
-- give_back(ids): these permits are free again. Returns how many of them were taken.
local function give_back(client, ids)
  local removed = 0
  for _, id in ipairs(ids) do
    removed = removed + redis.call('ZREM', taken, id)
  end
  if removed > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
    local free = redis.call('INCRBY', KEYS[1], removed)
    if free > 0 then
      begin_yield(client, redis.call('PUBLISH', named('redisson_sc'), free), yield_key)
    end
  end
  return removed
end
