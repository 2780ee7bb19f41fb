-- include: redisson_read_write_lock/common/tell
-- include: redisson_read_write_lock/common/longest_hold
-- include: redisson_lock/common/begin_yield
-- end_write(grant, yield): ends a write. If its owner still reads, the lock becomes a read lock,
-- which lasts as long as the reads. Redisson tells waiting readers nothing then; this does.
local function end_write(grant, yield)
  local told = tell()
  redis.call('HDEL', KEYS[1], grant .. ':write')
  local left_ms, all = longest_hold()
  if left_ms > 0 or not all then
    redis.call('HSET', KEYS[1], 'mode', 'read')
    if all then
      redis.call('PEXPIRE', KEYS[1], left_ms)
    end
  else
    redis.call('DEL', KEYS[1])
  end
  begin_yield(string.sub(grant, 1, 32), told, yield)
end
