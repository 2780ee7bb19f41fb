-- Ends a grant at one node, and passes the node to the next live waiter. Queues the same client
-- again if it asks for that.
--
-- KEYS   1 to 4 as acquire's; unless it is plain, 5 as acquire's and 6 as 5, for the fresh grant;
--        then the reservation, and the node's run, if there is a restart delay
-- ARGV   as in lua/README.md; then 'proposed secret mode delay_ms run_id' in one, see
--        quorum/common/proposal: the next owner's token, and the fresh grant's ticket and secret
-- reply  'released', 'released ' and 'queued <retry_after_ms> <position> <ticket>' or 'gone' for
--        the fresh grant, or 'not_held'; and notes
local call, keys, me = redis.call, KEYS, ARGV[1]
local lock, queue, reservation_name = keys[1], keys[2], keys[5]  -- of a plain release

-- The fast path: see simple/acquire. It equals the end of a plain release below if no client waits,
-- or if the first waiter is live, wants one token and a vote by message, and the proposal becomes
-- the token.
-- The record (see common/parse_waiter) of a waiter that a fast path votes for by message: it wants
-- one token. Captures asked_us, attempt, heartbeat_ms, claim_ms, channel and its secret.
local voter_record = '^(%d+) %d+ 1 (%d+) 1 (%d+) [01] %d+ (%d+) [01] (%S+) 32 %x+ (%x+)$'
local vote = not ARGV[3] and redis.pcall('GETRANGE', lock, '0', '79') or ''
if not vote.err and string.find(vote, me .. ' ', 1, true) == 1 then
  local records, fence_key, token = keys[3], keys[4], ARGV[2]
  local waiting = call('ZRANGE', queue, '0', '1')
  local head = waiting[1]
  if not head then
    call('DEL', lock, reservation_name)
    return 'released'
  end
  -- The grant itself may have waited here, while other nodes granted it.
  local asked_us, attempt, heartbeat_ms, claim_ms, channel, secret
  if head ~= me and waiting[2] ~= me and #token == 16 then
    asked_us, attempt, heartbeat_ms, claim_ms, channel, secret =
      string.match(call('HGET', records, head) or '', voter_record)
  end
  if secret and #secret == 16 then
    local time = call('TIME')
    local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
    local fence = call('GET', fence_key)
    if token >= now and token - now < 1000000 and now - asked_us < 2500 * heartbeat_ms and
        fence and #fence == 16 and fence < token and fence >= string.sub(token, 1, 8) and
        call('PUBSUB', 'NUMSUB', channel)[2] > 0 and call('EXISTS', reservation_name) == 0 then
      call('ZREM', queue, head)
      call('HDEL', records, head)
      call('SETRANGE', fence_key, '0', token)
      call('PSETEX', lock, claim_ms, head .. ' ' .. attempt)
      call('PUBLISH', channel, 'vote ' .. head .. ' ' .. attempt .. ' ' .. token .. ' ' ..
        claim_ms .. (waiting[2] and ' 1 ' or ' 0 ') .. now .. ' ' .. secret .. ' ' .. lock)
      return 'released look ' .. claim_ms
    end
  end
end

-- include: quorum/common/proposal
-- include: common/time
-- include: quorum/common/young
local young_ms, error_reply = young(known_run, restart_delay_ms)
if error_reply then
  young_ms = 1  -- the release counts nevertheless
end

-- young() has removed the node's run from KEYS, so these pieces find the reservation last.
-- include: common/give_back
-- include: common/read_fence
-- include: common/ending
-- include: common/queue
-- include: common/request
-- include: common/leave
-- include: quorum/common/pass_on
-- include: quorum/common/is_held_by
local held, now, ending = is_held_by(me), now_us(), read_ending()
local near = math.abs(proposed - now) < 1000000
local clock
if young_ms == 0 then
  clock = near and math.max(now, proposed) or now
end
if not held then  -- the grant may have waited here while other nodes granted it
  leave(me, ending.gone_ms)
  return 'not_held' .. (call('EXISTS', lock) == 0 and pass_on(now, me, clock) or '')
end
remove_waiter(me)
call('DEL', lock)
if not ARGV[2] then  -- a plain release
  return 'released' .. (pass_to_next(choose(nil, now), now, clock))
end

if ending.gone_ms ~= '0' then
  call('SET', KEYS[5], '', 'PX', ending.gone_ms)
end
give_back_tokens(read_fence(), ending.used, ending.reserved)
local reply = ''
if ARGV[4] then
  reply = ' gone'
  if call('EXISTS', KEYS[6]) == 0 then
    local request = read_request(3)
    place_and_prove(request, near, now)
    find_place(request, now)
    reply = ' ' .. enqueue(request, 0, now)
  end
end
return 'released' .. reply .. (pass_to_next(choose(nil, now), now, clock))
