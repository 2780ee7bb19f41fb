-- Ends a read grant. If it was the last, hands the lock over. Queues the same client again if it
-- asks for that, as release does.
--
-- KEYS   as release's
-- ARGV   1 grant; unless it is plain: 2 'last_used last_reserved gone_ms', of which readers use
--        gone_ms only  3 owner  4.. nothing, or all ARGV of acquire_read for a fresh grant
-- reply  'released', 'released ' and acquire_read's reply for the fresh grant, or 'not_held'; and
--        notes

-- The fast path: see simple/acquire. The release is plain, and no reader has expired. This equals
-- end_read() if no client waits, or if a writer waits, no client writes, and either others still
-- read or that writer is next.
-- include: read_write/common/next_writer_record
local call, keys, me = redis.call, KEYS, ARGV[1]
if not ARGV[2] then
  local lock, queue, readers, writers = keys[1], keys[2], keys[5], keys[6]
  local waiting = call('EXISTS', queue, writers)
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  if call('ZCOUNT', readers, '-inf', now) == 0 then
    local reading = waiting > 0 and call('EXISTS', lock, writers, writers) == 2 and
      call('ZCARD', readers)
    if (waiting == 0 or reading and reading > 1) and call('ZREM', readers, me) == 1 then
      if waiting == 2 and call('ZREM', queue, me) == 1 then
        call('HDEL', keys[3], me)
      end
      return 'released'
    end

    -- This was the last reader. The first waiting writer is live, and the one token that it wants
    -- is the server's time.
    local winner = reading == 1 and call('ZSCORE', readers, me) and
      call('ZRANGE', writers, '0', '0')[1]
    if winner then
      local waiters = keys[3]
      local asked_us, attempt, heartbeat_ms, claim_ms, channel, owner = string.match(
        call('HGET', waiters, winner) or '',
        next_writer_record)
      local fence = call('GET', keys[4])
      if asked_us and now - asked_us < 2500 * heartbeat_ms and
          call('PUBSUB', 'NUMSUB', channel)[2] > 0 and fence and #fence == 16 and
          fence < now and fence >= string.sub(now, 1, 8) then
        call('ZREM', readers, me)
        call('ZREM', writers, winner)
        if waiting == 2 then
          call('ZREM', queue, me)
        end
        call('HDEL', waiters, winner, me)
        call('SETRANGE', keys[4], '0', now)
        call('HSET', lock, 'kind', 'read_write/2', 'owner', owner, winner,
          string.format('%.0f ', now + 1000 * claim_ms) .. now)
        call('PEXPIRE', lock, claim_ms)
        call('PUBLISH', channel, 'grant ' .. winner .. ' ' .. attempt .. ' ' .. now .. ' ' ..
          claim_ms .. ' ' .. call('ZCARD', queue) + call('ZCARD', writers) .. ' ' .. lock)
        return 'released look ' .. claim_ms
      end
    end
  end
end

-- include: common/time
-- include: common/ending
-- include: read_write/common/end_read
-- include: read_write/common/request

local now = now_us()
local ending = read_ending()
local again = ARGV[4] ~= nil
local given_up = again and redis.call('EXISTS', KEYS[6]) == 1
local held, reply, check = end_read(ARGV[1], ending.gone_ms,
  again and not given_up and read_rw_request(3) or nil, now)
return (held and 'released' or 'not_held') ..
  (reply and ' ' .. reply or held and given_up and ' gone' .. check or check)
