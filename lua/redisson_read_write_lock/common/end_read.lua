-- include: redisson_read_write_lock/common/hold_of
-- include: redisson_read_write_lock/common/longest_hold
-- include: redisson_lock/common/named
-- include: redisson_lock/common/begin_yield
-- end_read(grant, yield): ends a read. The lock lasts as long as the last of the others, and is
-- free if none is left, even if readers that died still have their fields. Of very many, it looks
-- at some: the lock keeps its TTL then. Returns a note to go on if these have all died.
local function end_read(grant, yield)
  local lock = KEYS[1]
  redis.call('HDEL', lock, grant)
  redis.call('DEL', hold_of(grant, 1))
  if redis.call('HGET', lock, 'mode') == 'write' then
    return ''
  end
  local others_ms, all, again = longest_hold()
  if again and redis.call('HLEN', lock) <= 64 then
    others_ms, all, again = longest_hold()
  end
  if others_ms > 0 and all then
    redis.call('PEXPIRE', lock, others_ms)
  elseif all then
    redis.call('UNLINK', lock)
    local told = redis.call('PUBLISH', named('redisson_rwlock'), '0')
    begin_yield(string.sub(grant, 1, 32), told, yield)
  end
  return again and ' look 1' or ''
end
