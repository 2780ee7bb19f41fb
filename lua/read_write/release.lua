-- Ends a write grant. If it was its owner's last, or the lock was free, hands the lock over. Queues
-- the same client again if it asks for that, as simple/release does.
--
-- KEYS   1 to 5 as acquire's; 6 as 5, for the fresh grant; the last three as acquire's. A plain
--        release has neither 5 nor 6
-- ARGV   as simple/release's
-- reply  'released', 'released ' and acquire's reply for the fresh grant, or 'not_held'; and notes

-- The fast path: see simple/acquire. This is the only grant, which expires with the key, and the
-- release asks for nothing else. That equals settle() if no client waits, or if a writer is next.
-- include: read_write/common/keys
-- include: read_write/common/next_writer_record
local call, keys, args = redis.call, KEYS, ARGV
if not args[4] and (not args[2] or string.find(args[2], '^(%d+) %1 0$')) then
  local lock, waiters, writers = keys[1], keys[3], waiting_writers_key
  local held = redis.pcall('HMGET', lock, 'kind', 'holds', args[1], 'policy', 'phase')
  local alone = held[1] == 'read_write/2' and not held[2] and held[3]
  local waiting = alone and call('EXISTS', keys[2], writers)
  if waiting == 0 then
    call('DEL', lock)
    return 'released'
  end

  -- No client reads, and writers go first. The first waiting writer is live, and the one token that
  -- it wants is the server's time.
  local winner = alone and not held[4] and not held[5] and
    call('EXISTS', read_grants_key) == 0 and call('ZRANGE', writers, '0', '0')[1]
  if winner then
    local asked_us, attempt, heartbeat_ms, claim_ms, channel, owner = string.match(
      call('HGET', waiters, winner) or '',
      next_writer_record)
    local time = call('TIME')
    local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
    local fence = call('GET', keys[4])
    if asked_us and winner ~= args[1] and now - asked_us < 2500 * heartbeat_ms and
        call('PUBSUB', 'NUMSUB', channel)[2] > 0 and fence and #fence == 16 and
        fence < now and fence >= string.sub(now, 1, 8) then
      call('ZREM', writers, winner, args[1])
      call('HDEL', waiters, winner, args[1])
      call('DEL', lock)
      call('SETRANGE', keys[4], '0', now)
      call('HSET', lock, 'kind', 'read_write/2', 'owner', owner, winner,
        string.format('%.0f ', now + 1000 * claim_ms) .. now)
      call('PEXPIRE', lock, claim_ms)
      call('PUBLISH', channel, 'grant ' .. winner .. ' ' .. attempt .. ' ' .. now .. ' ' ..
        claim_ms .. ' ' .. call('ZCARD', keys[2]) + call('ZCARD', writers) .. ' ' .. lock)
      return 'released look ' .. claim_ms
    end
  end
end

-- include: common/time
-- include: common/give_back_cached
-- include: common/ending
-- include: reentrant/common/grants_without
-- include: common/leave
-- include: read_write/common/request
-- include: read_write/common/settle
-- include: read_write/common/write_again

local now = now_us()
local state = read_state(now)
local fence, range = read_fence()
local ending = read_ending()
local mine = find_grant(ARGV[1], now)
local again = mine and ARGV[4] ~= nil
local given_up = again and redis.call('EXISTS', KEYS[6]) == 1
local request = again and not given_up and read_rw_request(3) or nil
leave(ARGV[1], ending.gone_ms, waiting_writers_key)
if mine and ending.taken_us then
-- include: reentrant/common/stay_taken
  if taken_until > now then
    stay_taken(state.grants, mine, now)
    ask_again(KEYS[2])
    ask_again(waiting_writers_key)
    return 'released'
  end
end
if mine then
  state.grants = without(state.grants, mine, now)
end
local fresh = request and find_grant(request.grant, now)
local choice = not fresh and choose(request, state, now)

purge(state.grants)
if mine then
  fence = give_back_cached(ARGV[1], fence, range, ending)
end
local reply, check
if fresh then
  reply = write_again(request, fresh, state, now)
else
  reply, check = settle(choice, state, fence, now)
end
return (mine and 'released' or 'not_held') ..
  (reply and ' ' .. reply or given_up and ' gone' .. check or check)
