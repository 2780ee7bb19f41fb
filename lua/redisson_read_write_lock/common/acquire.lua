-- include: redisson_lock/common/repeated
-- include: redisson_read_write_lock/common/read_state
-- include: redisson_lock/common/wait_for
-- include: redisson_lock/common/yields
-- acquire(grant, lease_ms, terms, gone, yield): returns acquire's reply for a writer.
local function acquire(grant, lease_ms, terms, gone, yield)
  if redis.call('EXISTS', gone) == 1 then
    return 'gone'
  end
  local lock, field = KEYS[1], grant .. ':write'
  local mode, mine = read_state(field)
  if mode == nil then
    return mine
  elseif mine then
    return repeated('0', lease_ms, terms)
  elseif mode then
    return wait_for(terms, redis.call('PTTL', lock))
  end
  local yield_ms = yields(terms, string.sub(grant, 1, 32), yield)
  if yield_ms then
    return 'queued ' .. yield_ms .. ' 0 0'
  end
  redis.call('HSET', lock, 'mode', 'write', field, 1)
  redis.call('PEXPIRE', lock, lease_ms)
  return 'granted 0 ' .. lease_ms .. ' 0'
end
