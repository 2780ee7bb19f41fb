-- Ends a grant and hands the lock to the next live waiter. Queues the same client again if it asks
-- for that, and only when the old grant ends: a repeated release does not queue twice.
--
-- KEYS   1 to 5 as acquire's; 6 as 5, for the fresh grant. A plain release has neither 5 nor 6
-- ARGV   1 grant; unless it is plain: 2 'last_used last_reserved gone_ms'  3 owner
--        4.. nothing, or all ARGV of acquire for a fresh grant
-- reply  'released', 'released ' and acquire's reply for the fresh grant, or 'not_held'; and notes
local call, keys = redis.call, KEYS
local lock = keys[1]
-- include: simple/common/unflag
-- include: common/next_waiter_record

-- The fast path: see acquire. It equals settle() if no client waits, or if the first waiter is live
-- and wants one token.
if holder == ARGV[1] and not ARGV[2] then
  local queue = keys[2]
  if call('EXISTS', queue) == 0 then
    call('DEL', lock)
    return 'released'
  end

  local waiters, fence_key = keys[3], keys[4]
  local waiting = call('ZRANGE', queue, '0', '1')
  local winner = waiting[1]

  -- The token is the server's time.
  local asked_us, attempt, heartbeat_ms, claim_ms, channel = string.match(
    call('HGET', waiters, winner) or '', next_waiter_record)
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  local fence = call('GET', fence_key)
  if asked_us and winner ~= ARGV[1] and now - asked_us < 2500 * heartbeat_ms and
      call('PUBSUB', 'NUMSUB', channel)[2] > 0 and fence and #fence == 16 and
      fence < now and fence >= string.sub(now, 1, 8) then
    call('ZREM', queue, winner, ARGV[1])
    call('HDEL', waiters, winner, ARGV[1])
    call('SETRANGE', fence_key, '0', now)
    call('PSETEX', lock, claim_ms, winner)
    call('PUBLISH', channel, 'grant ' .. winner .. ' ' .. attempt .. ' ' .. now .. ' ' ..
      claim_ms .. (waiting[2] and ' 1 ' or ' 0 ') .. lock)
    return 'released look ' .. claim_ms
  end
end

-- include: simple/common/release
