-- Grants a Redisson read-write lock to a reader, or says when to ask again.
--
-- KEYS, ARGV and reply as acquire's. The owner is 'read:<number>:<owner>', or
--        'nest:<number>:<grant>' for one who reads under that write grant
-- include: redisson_read_write_lock/common/read_state
-- include: redisson_read_write_lock/common/hold_of
-- include: redisson_lock/common/is_manual
-- include: redisson_lock/common/extend
-- include: redisson_lock/common/wait_for
-- include: redisson_lock/common/yields
-- include: common/refuse_cancelled

local lock, grant, lease_ms, terms = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local mode, mine = read_state(grant)
if mode == nil then
  return mine
end
local hold = hold_of(grant, 1)
if mine then  -- a repeat
  if redis.call('EXISTS', hold) == 0 then  -- it has expired, but other readers kept the field
    extend(lock, lease_ms)
    redis.call('SET', hold, '1', 'PX', lease_ms)
  elseif not is_manual(terms) then
    extend(hold, lease_ms)
    extend(lock, lease_ms)
  end
  return 'granted 0 ' .. redis.call('PTTL', hold) .. ' 0'
end
local writer = string.match(ARGV[4], '^nest:%d+:(%x+:%d+)')
if mode == 'write' and not (writer and redis.call('HEXISTS', lock, writer .. ':write') == 1) then
  return wait_for(terms, redis.call('PTTL', lock))
end
local yield_ms = not mode and yields(terms, string.sub(grant, 1, 32), KEYS[6])
if yield_ms then
  return 'queued ' .. yield_ms .. ' 0 0'
end
redis.call('HSET', lock, 'mode', mode or 'read', grant, 1)
redis.call('SET', hold, '1', 'PX', lease_ms)
redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), lease_ms))
return 'granted 0 ' .. lease_ms .. ' 0'
