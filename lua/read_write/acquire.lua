-- Lets a writer in if no client writes or reads, or if its owner writes already; otherwise queues
-- it, so that new readers wait, or refuses it.
--
-- KEYS   1 the lock: a hash, { kind = 'read_write/2', owner = who writes, policy = 'phase_fair' or
--        absent, <grant> = 'its expiry in us of server time, its token', and once there are two:
--        holds = how many, token = the latest }; or { kind, phase }, see choose(); or absent. 2 the
--        waiting readers; 3 to 5 as in lua/README.md; 6 a zset of the readers, by expiry in us;
--        7 the waiting writers, as 2; 8 the writer's grants by their expiry, once there are two
-- ARGV   1 grant  2 lease_ms  3 'block attempt wait heartbeat_ms manual ticket claim_ms
--        listen channel'  4 owner  5 'writer_first' or 'phase_fair'
-- reply  'granted <token> <lease_ms> <waiters>', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone', and notes

-- No client writes, reads or waits. In line and with numbers as text, as simple/acquire.
local call, keys, args = redis.call, KEYS, ARGV
local lock, me, terms = keys[1], args[1], args[3]
local existing = call('EXISTS', lock, keys[2], keys[5], keys[6], keys[7])
if existing == 0 and string.sub(terms, 1, 2) == '1 ' then
  local time = call('TIME')
  local fence = call('GET', keys[4])
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  if fence and #fence == 16 and fence < now and fence >= string.sub(now, 1, 8) then
    local lease_ms = args[2]
    local record = string.format('%.0f ', now + 1000 * lease_ms) .. now
    call('SETRANGE', keys[4], '0', now)
    if args[5] == 'phase_fair' then
      call('HSET', lock, 'kind', 'read_write/2', 'owner', args[4], me, record, 'policy',
        'phase_fair')
    else
      call('HSET', lock, 'kind', 'read_write/2', 'owner', args[4], me, record)
    end
    call('PEXPIRE', lock, lease_ms)
    return 'granted ' .. now .. ' ' .. lease_ms .. ' 0'
  end
end

-- Another writer has its only grant, and this is the first attempt of a request that may wait: it
-- comes last.
local first_heartbeat_ms = string.match(terms, '^%d+ 1 1 (%d+) %d 0 %d+ 0 ')
if first_heartbeat_ms and (existing == 1 or existing == 2) and args[5] ~= 'phase_fair' then
  local held = call('HMGET', lock, 'kind', 'owner', 'holds')
  local waiters, writers = keys[3], keys[7]
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  -- Only the lock exists: no client reads or waits, and the grant was not given up.
  local alone = existing == 1
  -- The records are new or have a long TTL; waiting readers have theirs there too: see enqueue().
  local left_ms = call('PTTL', waiters)
  if (left_ms < 0 or left_ms >= 2.5 * first_heartbeat_ms) and
      held[1] == 'read_write/2' and held[2] and held[2] ~= args[4] and not held[3] and
      (alone or call('ZCOUNT', writers, now, '+inf') == 0) and
      call('HSETNX', waiters, me, now .. ' ' .. args[2] .. ' ' .. terms .. ' ' .. #args[4] ..
        ' ' .. args[4]) == 1 and
      call('ZADD', writers, 'NX', now, me) == 1 then
    local position = alone and '0' or call('ZRANK', writers, me)
    if alone or position > 0 then  -- what existed beside the lock is the queue of writers
      if call('PTTL', writers) < math.max(left_ms, 2.5 * first_heartbeat_ms) then
        call('PEXPIRE', writers, math.max(left_ms, 3 * first_heartbeat_ms))
      end
      if left_ms < 0 then
        call('PEXPIRE', waiters, 3 * first_heartbeat_ms)
      end
      for _, field in ipairs(alone and call('HKEYS', lock) or {}) do
        if string.match(field, '^%x+():%d+k$') == 33 then  -- its client may cache it
          call('PUBLISH', string.sub(string.match(terms, '%S+$'), 1, -33) ..
            string.sub(field, 1, 32), 'wanted ' .. field .. ' ' .. lock)
        end
      end
      return 'queued ' .. call('PTTL', lock) .. ' ' .. position .. ' ' .. now
    end
    call('ZREM', writers, me)
    call('HDEL', waiters, me)
  end
end

-- Others read, no client writes, and the grant was not given up: the first attempt of a request
-- that may wait comes last here, too. The first waiting writer recalls each cached read grant.
if first_heartbeat_ms and existing > 0 and args[5] ~= 'phase_fair' and
    call('EXISTS', lock, keys[5]) == 0 then
  local waiters, readers, writers = keys[3], keys[6], keys[7]
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  local after = '(' .. now
  local ends_us = call('ZRANGEBYSCORE', readers, after, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
  local left_ms = call('PTTL', waiters)
  if (left_ms < 0 or left_ms >= 2.5 * first_heartbeat_ms) and
      ends_us and call('ZCARD', readers) < 64 and call('ZCOUNT', writers, now, '+inf') == 0 and
      call('HSETNX', waiters, me, now .. ' ' .. args[2] .. ' ' .. terms .. ' ' .. #args[4] ..
        ' ' .. args[4]) == 1 and
      call('ZADD', writers, 'NX', now, me) == 1 then
    if call('PTTL', writers) < math.max(left_ms, 2.5 * first_heartbeat_ms) then
      call('PEXPIRE', writers, math.max(left_ms, 3 * first_heartbeat_ms))
    end
    if left_ms < 0 then
      call('PEXPIRE', waiters, 3 * first_heartbeat_ms)
    end
    local position = call('ZRANK', writers, me)
    for _, grant in ipairs(position == 0 and call('ZRANGEBYSCORE', readers, after, '+inf') or {}) do
      if string.sub(grant, -1) == 'k' then  -- see recall()
        call('PUBLISH', string.sub(string.match(terms, '%S+$'), 1, -33) ..
          string.sub(grant, 1, 32), 'wanted ' .. grant .. ' ' .. lock)
      end
    end
    return 'queued ' .. math.ceil((ends_us - now) / 1000) .. ' ' .. position .. ' ' .. now
  end
end

-- include: common/time
-- include: reentrant/common/purge
-- include: read_write/common/request
-- include: read_write/common/settle
-- include: read_write/common/write_again

if redis.call('EXISTS', KEYS[5]) == 1 then
  return 'gone'
end
local request = read_rw_request(0)
local now = now_us()
local state = read_state(now)
local fence = read_fence()
local mine = find_grant(request.grant, now)
local choice = not mine and choose(request, state, now)
purge(state.grants)
return mine and write_again(request, mine, state, now) or (settle(choice, state, fence, now))
