-- Grants the lock to a writer if no client writes or reads, or if its owner writes already.
-- Otherwise queues the writer with a wait marker, so that new readers wait, or refuses it.
--
-- KEYS   1 the lock: a hash, { kind = 'read_write/2', owner = who writes, policy = 'phase_fair' or
--        absent, <grant> = 'its expiry in us of server time, its token', and once there are two:
--        holds = how many, token = the latest }; or { kind, phase }, see choose(); or absent. 2 the
--        waiting readers; 3 to 5 as in lua/README.md; 6 a zset of the readers' grants, by expiry in
--        us; 7 the wait markers, as 2; 8 the writer's grants by their expiry, once there are two
-- ARGV   1 grant  2 lease_ms  3 'amount attempt wait heartbeat_ms manual ticket claim_ms
--        listen channel'  4 owner  5 'writer_first' or 'phase_fair'
-- reply  'granted <token> <lease_ms> <waiters>', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone', and notes

-- Two fast paths come first: see simple/acquire.
local call, keys, args = redis.call, KEYS, ARGV
local lock, me, terms = keys[1], args[1], args[3]
local existing = call('EXISTS', lock, keys[2], keys[5], keys[6], keys[7])

-- No client writes, reads or waits, and the grant was not given up. This equals reserve_tokens()
-- and take_write() for one token, the server's time, if the fence is behind it in the same period.
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

-- Another writer has its only grant, or others read and no client writes, and this is the first
-- attempt of a request that may wait. This equals stay_out(): the request comes last, and the first
-- waiting writer recalls what keeps it out.
-- include: common/first_attempt_terms
-- include: common/recall
-- include: read_write/common/come_last
local first_heartbeat_ms = string.match(terms, first_attempt_terms)
if first_heartbeat_ms and existing > 0 and args[5] ~= 'phase_fair' then
  local readers, writers = keys[6], keys[7]
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  local held = redis.pcall('HMGET', lock, 'kind', 'owner', 'holds')
  local writes = held[1] == 'read_write/2'
  local alone, retry_after_ms = existing == 1, nil
  if writes then
    -- Beside the lock there is at most the queue of writers, or another key: see below.
    retry_after_ms = existing <= 2 and held[2] and held[2] ~= args[4] and not held[3] and
      call('PTTL', lock)
  elseif call('EXISTS', lock, keys[5]) == 0 and call('ZCARD', readers) < 64 then
    local ends_us = call('ZRANGEBYSCORE', readers, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0',
      '1')[2]
    retry_after_ms = ends_us and math.ceil((ends_us - now) / 1000)
  end
  local position = retry_after_ms and come_last(writers, alone, first_heartbeat_ms, now)
  if position and writes and not alone and position == 0 then
    -- The other key is not the queue: a client reads or reads next, or the grant was given up.
    call('ZREM', writers, me)
    call('HDEL', keys[3], me)
  elseif position then
    local first = alone or position == 0
    for _, grant in ipairs(not first and {} or writes and call('HKEYS', lock) or
        call('ZRANGEBYSCORE', readers, '(' .. now, '+inf')) do
      if string.sub(grant, -1) == 'k' then  -- its client may cache it
        recall(grant, {channel = string.match(terms, '%S+$')})
      end
    end
    return 'queued ' .. retry_after_ms .. ' ' .. position .. ' ' .. now
  end
end

-- include: common/time
-- include: reentrant/common/purge
-- include: read_write/common/request
-- include: read_write/common/settle
-- include: read_write/common/write_again
-- include: common/refuse_cancelled

local request = read_rw_request(0)
local now = now_us()
local state = read_state(now)
local fence = read_fence()
local mine = find_grant(request.grant, now)
local choice = not mine and choose(request, state, now)
purge(state.grants)
return mine and write_again(request, mine, state, now) or (settle(choice, state, fence, now))
