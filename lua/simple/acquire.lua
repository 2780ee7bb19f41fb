-- Grants the lock to the first client that came. Queues or refuses the others.
--
-- KEYS   1 the lock: a string, the owner's grant id; 2 to 5 as in lua/README.md
-- ARGV   1 grant  2 lease_ms  3 'amount attempt wait heartbeat_ms manual ticket claim_ms
--        listen channel'  4 owner
-- reply  'granted <token> <lease_ms> <waiters>', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone', and notes

-- Two fast paths come first. They create no functions and keep numbers as text, since creating a
-- function or formatting a number costs as much as a command. They look up each global once.
local call, keys, args = redis.call, KEYS, ARGV
local lock, queue, me, terms = keys[1], keys[2], args[1], args[3]
local existing = call('EXISTS', lock, queue, keys[5])

-- The lock is free, no client waits, and the grant was not given up. This equals settle() if the
-- one token wanted is the server's time, since the fence is behind it in the same period: see
-- reserve_tokens().
if existing == 0 and string.sub(terms, 1, 2) == '1 ' then
  local time = call('TIME')
  local fence = call('GET', keys[4])
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  if fence and #fence == 16 and fence < now and fence >= string.sub(now, 1, 8) then
    local lease_ms = args[2]
    call('SETRANGE', keys[4], '0', now)
    call('PSETEX', lock, lease_ms, me)
    return 'granted ' .. now .. ' ' .. lease_ms .. ' 0'
  end
end

-- Another grant has the lock, and this is the first attempt of a request that may wait. This equals
-- enqueue() if the request comes last.
-- include: simple/common/holder
-- include: common/first_attempt_terms
local first_heartbeat_ms = string.match(terms, first_attempt_terms)
local colon, trait = string.match(holder, '^%x+():%d+([knw]?)$')
if first_heartbeat_ms and holder ~= me and colon == 33 then
  local waiters = keys[3]
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  local owner = args[4] and #args[4] .. ' ' .. args[4] or '32 ' .. string.sub(me, 1, 32)
  -- Only the lock exists: no client waits, and the grant was not given up. If the TTL of the
  -- records must be extended, the general path does it, and removes crashed waiters.
  local alone = existing == 1
  if (alone or call('PTTL', waiters) >= 2.5 * first_heartbeat_ms and
      call('ZCOUNT', queue, now, '+inf') == 0) and
      call('HSETNX', waiters, me, now .. ' ' .. args[2] .. ' ' .. terms .. ' ' .. owner) == 1 and
      call('ZADD', queue, 'NX', now, me) == 1 then
    local position = alone and '0' or call('ZRANK', queue, me)
    if alone or existing == 2 and position > 0 then
      if alone then
        local ttl_ms = 3 * first_heartbeat_ms .. ''
        call('PEXPIRE', queue, ttl_ms)
        call('PEXPIRE', waiters, ttl_ms)
      end
      if trait == 'n' then  -- see flag()
        call('SETRANGE', lock, #holder - 1, 'w')
      end
      if trait == 'n' or alone and trait == 'k' then  -- see recall()
        call('PUBLISH', string.sub(string.match(terms, '%S+$'), 1, -33) ..
          string.sub(holder, 1, 32), 'wanted ' .. holder .. ' ' .. lock)
      end
      return 'queued ' .. call('PTTL', lock) .. ' ' .. position .. ' ' .. now
    end
    -- The third key that exists is the tombstone: the grant was given up.
    call('ZREM', queue, me)
    call('HDEL', waiters, me)
  end
end

-- include: simple/common/acquire
