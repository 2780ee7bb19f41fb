-- include: redisson_semaphore/common/taken
-- include: redisson_semaphore/common/taken_is_ours
-- keep(ids, ends): the permits end then; redlatch's set lives for a day longer, and no set longer
-- than the semaphore.
local function keep(ids, ends, how, now)
  for _, id in ipairs(ids) do
    redis.call('ZADD', taken, how, ends, id)
  end
  local free_ms, day_after_ms = redis.call('PTTL', KEYS[1]), ends - now + 86400000
  if free_ms > 0 then
    redis.call('PEXPIRE', taken, free_ms)
  elseif taken_is_ours and redis.call('PTTL', taken) < day_after_ms then
    redis.call('PEXPIRE', taken, day_after_ms)
  end
end
