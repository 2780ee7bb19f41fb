-- include: redisson_read_write_lock/common/tell
-- include: redisson_lock/common/begin_yield
-- end_write(grant, yield): ends a write. If its owner still reads, the lock becomes a
-- read lock. Redisson tells waiting readers nothing then; this does.
local function end_write(grant, yield)
  local told = tell()
  redis.call('HDEL', KEYS[1], grant .. ':write')
  if redis.call('HLEN', KEYS[1]) == 1 then
    redis.call('DEL', KEYS[1])
  else
    redis.call('HSET', KEYS[1], 'mode', 'read')
  end
  begin_yield(string.sub(grant, 1, 32), told, yield)
end
