-- include: redisson_semaphore/common/taken
-- keep(ids, ends): the permits end then; the set lives for a day longer, but no longer than the
-- semaphore.
local function keep(ids, ends, how, now)
  for _, id in ipairs(ids) do
    redis.call('ZADD', taken, how, ends, id)
  end
  local free_ms = redis.call('PTTL', KEYS[1])
  if free_ms > 0 then
    redis.call('PEXPIRE', taken, free_ms)
  elseif string.find(taken, 'redisson.permits', 1, true) then
    redis.call('PEXPIRE', taken, ends - now + 86400000)
  end
end
