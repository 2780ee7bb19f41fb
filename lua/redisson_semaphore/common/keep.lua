-- include: redisson_semaphore/common/taken
-- include: redisson_semaphore/common/taken_is_ours
-- keep(ids, ends): the permits end then; the set lives as long as the semaphore.
local function keep(ids, ends)
  redis.call('PEXPIRE', taken, '1', 'GT')  -- lets the ZADD pass if memory is full
  for _, id in ipairs(ids) do
    redis.call('ZADD', taken, ends, id)
  end
  local free_ms = redis.call('PTTL', KEYS[1])
  if free_ms > 0 then
    redis.call('PEXPIRE', taken, free_ms)
  elseif taken_is_ours then
    redis.call('PERSIST', taken)
  end
end
