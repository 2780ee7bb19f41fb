-- include: redisson_lock/common/refuse_readers
-- include: redisson_lock/common/wait_for
-- include: redisson_lock/common/token
-- include: redisson_lock/common/repeated
-- include: redisson_lock/common/yields
-- acquire(grant, lease_ms, terms, gone, yield): returns acquire's reply. `gone`: the key of the
-- grant's tombstone.
local function acquire(grant, lease_ms, terms, gone, yield)
  local lock, readers = KEYS[1], KEYS[#KEYS]
  if redis.call('EXISTS', lock, gone, yield, readers) > 0 then
    local refused = refuse_readers(readers, 'a Redisson lock')
    if refused then
      return refused
    elseif redis.call('EXISTS', gone) == 1 then
      return 'gone'
    end
    local client = string.sub(grant, 1, 32)
    if redis.call('EXISTS', lock) == 1 then
      local found = redis.pcall('HMGET', lock, grant, 'kind', 'mode')
      if found.err or found[2] or found[3] then
-- include: common/wrong_kind
        return wrong_kind('a Redisson lock', found.err and found)
      end
      return found[1] and repeated(this_token(), lease_ms, terms) or
        wait_for(terms, redis.call('PTTL', lock))
    end
    local yield_ms = yields(terms, client, yield)
    if yield_ms then
      return 'queued ' .. yield_ms .. ' 0 0'
    end
  end
  local token = next_token()
  redis.call('HSET', lock, grant, 1)
  redis.call('PEXPIRE', lock, lease_ms)
  return 'granted ' .. token .. ' ' .. lease_ms .. ' 0'
end
