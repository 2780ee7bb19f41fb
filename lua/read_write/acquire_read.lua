-- Grants the lock to a reader if no client writes and no writer waits, or if it reads under its own
-- owner's write. Otherwise queues or refuses the reader.
--
-- KEYS   1 to 8 as acquire's
-- ARGV   1 grant  2 lease_ms  3 'amount attempt wait heartbeat_ms manual ticket claim_ms
--        listen channel'  4 'read:<number>:<owner>', or 'nest:<number>:<grant>' under that write
-- reply  'granted <token> <lease_ms> <others>', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone', and notes. The token is the last write's or, if none
--        is known, a new one, which readers share; others is 1 if a writer waits or writes

-- Two fast paths come first: see simple/acquire.
local call, keys, args = redis.call, KEYS, ARGV
local existing = call('EXISTS', keys[1], keys[2], keys[5], keys[6], keys[7])

-- No client writes or waits, and the grant was not given up. Others may read. This equals
-- take_read() and expire_readers() if the last write's token is known.
if existing == 0 or existing == 1 and call('EXISTS', keys[6]) == 1 then
  local token = call('GET', keys[4]) or ''
  if #token < 16 or #token == 16 and token < '9' then
    token = string.match(token, '^%d+$')
  else
    token = nil
  end
  if token then
    local time = call('TIME')
    local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
    local grant, lease_ms = args[1], args[2]
    -- If memory is full, the general path decides: a repeat needs none.
    if redis.pcall('ZADD', keys[6], 'NX', now + 1000 * lease_ms, grant) == 1 then
      if existing == 0 then
        call('PEXPIRE', keys[6], lease_ms)
      else
        call('PEXPIRE', keys[6], lease_ms, 'GT')
        local expired = call('ZCOUNT', keys[6], '-inf', now)
        if expired > 0 then
          call('ZREMRANGEBYRANK', keys[6], '0', math.min(expired, 64) - 1)
        end
      end
      return 'granted ' .. token .. ' ' .. lease_ms .. ' 0'
    end
  end
end

-- Another client writes with one grant, or others read and the first waiting writer is live; and
-- this is the first attempt of a request that may wait, is no reader yet and was not given up. This
-- equals stay_out(): the request comes last, and the first waiting reader recalls the write.
-- include: common/first_attempt_terms
-- include: common/liveness_record
-- include: common/recall
-- include: read_write/common/come_last
local first_heartbeat_ms = string.match(args[3], first_attempt_terms)
if first_heartbeat_ms and string.sub(args[4], 1, 5) == 'read:' and call('EXISTS', keys[5]) == 0 then
  local lock, queue, me = keys[1], keys[2], args[1]
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  local held = redis.pcall('HMGET', lock, 'kind', 'owner', 'holds')
  local retry_after_ms
  if held[1] == 'read_write/2' then
    retry_after_ms = held[2] and not held[3] and call('PTTL', lock)
  elseif call('EXISTS', lock) == 0 and call('ZCOUNT', keys[6], '(' .. now, '+inf') > 0 then
    local writer = call('ZRANGE', keys[7], '0', '0')[1]
    local asked_us, heartbeat_ms, channel =
      string.match(writer and call('HGET', keys[3], writer) or '', liveness_record)
    local left_us = asked_us and asked_us + 2500 * heartbeat_ms - now
    if asked_us and left_us > 0 and call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
      retry_after_ms = math.ceil(left_us / 1000)
    end
  end
  local position = retry_after_ms and not call('ZSCORE', keys[6], me) and
    not call('ZSCORE', queue, me) and come_last(queue, existing == 1, first_heartbeat_ms, now)
  if position then
    local first = existing == 1 or position == 0
    for _, grant in ipairs(first and held[2] and call('HKEYS', lock) or {}) do
      if string.sub(grant, -1) == 'k' then  -- its client may cache it
        recall(grant, {channel = string.match(args[3], '%S+$')})
      end
    end
    return 'queued ' .. retry_after_ms .. ' ' .. position .. ' ' .. now
  end
end

-- include: common/time
-- include: read_write/common/request
-- include: read_write/common/read_again
-- include: common/refuse_cancelled

local request = read_rw_request(0)
local now = now_us()
local state = read_state(now)
local fence = read_fence()
local expiry = read_expiry(request.grant, now)
if expiry then
  return read_again(request, expiry, state, fence, now)
end
local choice = choose(request, state, now)
purge(state.grants)
return (settle(choice, state, fence, now))
