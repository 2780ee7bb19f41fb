-- include: redisson_semaphore/common/taken
-- include: redisson_lock/common/begin_yield
-- include: redisson_lock/common/named
-- include: redisson_semaphore/common/yield_key
-- give_back(client, removed): that many permits, which are no longer in the set, are free again.
local function give_back(client, removed)
  if removed > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
    local free = redis.call('INCRBY', KEYS[1], removed)
    if free > 0 then
      local told = redis.call('PUBLISH', named('redisson_sc'), string.format('%.0f', free))
      begin_yield(client, told, yield_key)
    end
  end
end
