-- include: redisson_read_write_lock/common/hold_of
-- include: redisson_read_write_lock/common/longest_hold
-- include: redisson_lock/common/named
-- include: redisson_lock/common/begin_yield
-- end_read(grant, yield): ends a read. The lock lasts as long as the last of the others,
-- and is free if none is left, even if a reader that died still has its field.
local function end_read(grant, yield)
  local lock = KEYS[1]
  redis.call('HDEL', lock, grant)
  redis.call('DEL', hold_of(grant, 1))
  local others_ms = redis.call('HLEN', lock) > 1 and longest_hold() or -3
  local writes = redis.call('HGET', lock, 'mode') == 'write'
  if others_ms > 0 and not writes then
    redis.call('PEXPIRE', lock, others_ms)
  elseif not writes then
    redis.call('DEL', lock)
    local told = redis.call('PUBLISH', named('redisson_rwlock'), '0')
    begin_yield(string.sub(grant, 1, 32), told, yield)
  end
end
