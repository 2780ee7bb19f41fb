-- Returns a grant's permits, and hands them to waiters in turn.
--
-- KEYS   1 to 4 as acquire's; unless it is plain, 5 as acquire's and 6 the same; last
--        semaphore.permits
-- ARGV   1 grant; unless it is plain: 2 'last_used last_reserved gone_ms', of which permits use
--        gone_ms only  3 owner
-- reply  'released' or 'not_held', and notes
local call, keys, me = redis.call, KEYS, ARGV[1]
local permits = keys[#keys]
local ended = false
-- include: common/next_waiter_record

-- The fast path: see simple/acquire. It equals give_back() if the release is plain, and either no
-- client waits or the first waiter gets just the permit that comes back.
if not ARGV[2] then
  local lock, queue, waiters = keys[1], keys[2], keys[3]
  local state = redis.pcall('HMGET', lock, 'capacity', 'until', 'extra', me)
  local capacity, amount = state[1], state[4]
  if capacity then
    local winner = call('ZRANGE', queue, '0', '0')[1]
    if not winner then
      if call('ZREM', permits, me) == 1 then
        if amount then
          call('HDEL', lock, me)
          if call('HINCRBY', lock, 'extra', 1 - amount) <= 0 then
            call('HDEL', lock, 'extra')
          end
        end
        return 'released'
      end
    elseif not amount then
      -- The first waiter is live and wants one permit, and no other is free.
      local asked_us, attempt, heartbeat_ms, claim_ms, channel = string.match(
        call('HGET', waiters, winner) or '',
        next_waiter_record)
      local time = call('TIME')
      local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
      local expiry = asked_us and now + 1000 * claim_ms
      if asked_us and winner ~= me and now - asked_us < 2500 * heartbeat_ms and
          state[2] - expiry >= 86400000000 and call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
        local extra = state[3]
        ended = call('ZREM', permits, me) == 1
        if ended and
            call('ZCOUNT', permits, '(' .. now, '+inf') + (extra or 0) == capacity - 1 and
            (not extra or call('ZCOUNT', permits, '-inf', now) == 0) then
          call('ZREM', queue, winner, me)
          call('HDEL', waiters, winner, me)
          call('ZADD', permits, expiry, winner)
          if capacity == '1' then
            call('PEXPIRE', permits, claim_ms)
          else
            call('PEXPIRE', permits, claim_ms, 'GT')
          end
          call('PUBLISH', channel, 'grant ' .. winner .. ' ' .. attempt .. ' 0 ' .. claim_ms ..
            ' 0 ' .. lock)
          return 'released look ' .. claim_ms
        end
      end
    end
  end
end

-- include: common/time
-- include: common/ending
-- include: semaphore/common/give_back

local held, _, check = give_back(me, read_ending().gone_ms, ended, now_us())
return (held and 'released' or 'not_held') .. check
