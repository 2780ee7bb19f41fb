-- One node's vote for a grant: grants it, or queues it to be told when it is its turn, or refuses
-- it. The client has the lock when a majority of nodes have granted it.
--
-- KEYS   1 the lock: a string, the owner's grant id and the attempt that was granted; 2 to 5 as in
--        lua/README.md; 6 whose turn it is; 7 the node's run, if there is a restart delay
-- ARGV   as in lua/README.md; then 'token mode delay_ms run_id' in one: the token and ticket that
--        are proposed; 'take', or 'queue' to give a vote back and only wait, or 'yield' to let
--        others go first once. Without a restart delay the last two are left out, and 'take' too
-- reply  'granted <token> <lease_ms> <others> <now>', 'queued <retry_after_ms> <position>
--        <ticket>', 'busy <retry_after_ms>', 'young <ms>' or 'gone', and notes

-- The common cases come first, all in line, for the reason that simple/acquire gives: one token is
-- wanted, there is no delay, and the proposal is the token, as neither clock nor fence is ahead.
local call, keys, args = redis.call, KEYS, ARGV
local lock, queue, records, me, terms = keys[1], keys[2], keys[3], args[1], args[3]
local proposal = args[#args]
local existing = call('EXISTS', lock, queue, keys[5], keys[6])
if #proposal == 16 and string.sub(terms, 1, 2) == '1 ' then
  local attempt, my_turn = '1', false
  if string.sub(terms, 3, 4) ~= '1 ' then
    attempt = string.match(terms, '^%d+ (%d+)')
    my_turn = existing > 0 and
      string.sub(call('GET', keys[6]) or '', 1, #me + 1) == me .. ' '
    if my_turn then
      -- Unless this attempt was overtaken by what gave it up.
      local recorded = string.match(call('HGET', records, me) or '', '^%d+ %d+ %d+ (%d+) ')
      my_turn = recorded and tonumber(recorded) < tonumber(attempt)
    end
  end
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  local plausible = proposal >= now and proposal - now < 1000000

  -- Free, and no client waits, or it is this grant's turn; it was not given up.
  if existing == 0 or my_turn and call('EXISTS', lock, keys[5]) == 0 then
    local fence = plausible and call('GET', keys[4])
    if fence and #fence == 16 and fence < proposal and fence >= string.sub(proposal, 1, 8) then
      local others = ' 0 '
      if my_turn then
        call('ZREM', queue, me)
        call('HDEL', records, me)
        call('DEL', keys[6])
        others = call('EXISTS', queue) == 1 and ' 1 ' or ' 0 '
      end
      call('SETRANGE', keys[4], '0', proposal)
      call('PSETEX', lock, args[2], me .. ' ' .. attempt)
      return 'granted ' .. proposal .. ' ' .. args[2] .. others .. now
    end

  -- Another grant's, and the first attempt of one that would wait. If it is in the queue already,
  -- a later attempt was here before it, or it is repeated.
  elseif plausible and attempt == '1' then
    local heartbeat_ms = string.match(terms, '^%d+ 1 1 (%d+) %d 0 %d+ 0 ')
    local holder = heartbeat_ms and call('GETRANGE', lock, '0', '79') or ''
    if string.match(holder, '^%x+:%d+ %d+$') and string.sub(holder, 1, #me + 1) ~= me .. ' ' and
        call('EXISTS', keys[5]) == 0 and not call('HGET', records, me) and
        call('ZADD', queue, 'NX', proposal, me) == 1 then
      local owner = args[5] and #args[4] .. ' ' .. args[4] or '32 ' .. string.sub(me, 1, 32)
      call('HSET', records, me, now .. ' ' .. args[2] .. ' ' .. terms .. ' ' .. owner)
      -- Or none, if one of them is new.
      if math.min(call('PTTL', queue), call('PTTL', records)) < 2.5 * heartbeat_ms then
        call('PEXPIRE', queue, 3 * heartbeat_ms)
        call('PEXPIRE', records, 3 * heartbeat_ms)
      end
      return 'queued ' .. call('PTTL', lock) .. ' ' .. call('ZRANK', queue, me) .. ' ' .. proposal
    end
  end
end

-- include: common/time
-- include: common/fence
-- include: common/hold_id
-- include: common/request
-- include: common/queue
-- include: quorum/common/young
-- include: quorum/common/read_holder
-- include: common/remove_waiter
-- include: quorum/common/turn
local proposed, mode, delay_ms, run_id =
  string.match(table.remove(ARGV), '^(%d+) ?(%a*) ?(%d*) ?(%x*)$')
if mode == '' then
  mode = 'take'
end
local young_ms, refused = young(run_id, delay_ms)
if refused then
  return refused
end
local now = now_us()
-- The clocks of nodes differ; one that is far from this one proposes nothing.
local near = math.abs(proposed - now) < 1000000
local clock = near and math.max(now, proposed) or now

local function granted_now(token, lease_ms)
  return string.format('granted %s %.0f %d %.0f', token, lease_ms, call('EXISTS', queue), now)
end

local function grant(request)
  local token = reserve_tokens(read_fence(), request.block, clock)
  call('SET', lock, request.hold .. ' ' .. request.attempt, 'PX', request.lease_ms)
  return granted_now(token, request.lease_ms)
end

local request = read_request(0)
if request.ticket == 0 then
  -- So that it stands at the same place on all nodes, however late one of them is asked.
  request.ticket = near and tonumber(proposed) or now
end
if existing == 0 and mode == 'take' and young_ms == 0 then
  return grant(request)
end

if call('EXISTS', KEYS[5]) == 1 then
  return 'gone'
end
local attempt = request.attempt
local recorded = read_waiter(request.hold)
-- It was overtaken by what gave this attempt up.
local late = recorded and recorded.attempt >= attempt
local holder, granted_attempt = read_holder()

if holder == request.hold then
  if granted_attempt > attempt then  -- so was this
    return 'busy 0'
  elseif mode == 'take' and young_ms == 0 then
    local fence = read_fence()
    local lease_ms = call('PTTL', lock)
    if not request.manual then
      lease_ms = math.max(lease_ms, request.lease_ms)
    end
    call('SET', lock, request.hold .. ' ' .. attempt, 'PX', lease_ms)
    return granted_now(string.format('%.0f', fence - request.block + 1), lease_ms)
  end
  remove_waiter(request.hold)
  call('DEL', lock)
  find_place(request, now)
  if mode == 'queue' then
    -- If it comes first itself, that it stands there is enough.
    local reply = enqueue(request, 0, now)
    local choice = choose(nil, now)
    if choice.winner and choice.winner.hold == request.hold then
      choice.winner = nil
    end
    return reply .. pass_turn(choice, now)
  end
  local look = pass_turn(choose(nil, now), now)
  return enqueue(request, 0, now) .. look
end

find_place(request, now)
request.missed = false  -- that it was never here is no news
local wait_ms, look
if holder ~= '' then
  wait_ms = client_of(holder) and call('PTTL', lock) or -1
elseif young_ms > 0 then
  return 'young ' .. young_ms
else
  local turn, left_ms = turn_of(now)
  local mine = turn == request.hold
  if turn and not mine and left_ms > 0 then
    wait_ms = left_ms
  else
    if turn and not mine then
      remove_waiter(turn)
    end
    local choice = mine and {passed_over = {}} or choose(request, now)
    if mode == 'take' and not late and not choice.winner and not choice.unfinished then
      remove_waiters(choice.passed_over)
      if request.queued then
        remove_waiter(request.hold)
      end
      if turn then
        call('DEL', KEYS[6])
      end
      request.attempt = attempt
      return grant(request)
    end
    wait_ms = choice.winner and turn_ms or 0
    if choice.winner or choice.unfinished then
      look = pass_turn(choice, now)
    elseif turn and mode == 'queue' then
      if not mine then
        call('DEL', KEYS[6])
      end
    elseif turn then
      remove_waiter(request.hold)
      request.queued = false  -- so that the queue, if this was all of it, gets its expiry anew
      look = pass_turn(choose(nil, now), now)
    end
  end
end
if not request.wait then
  return 'busy ' .. wait_ms .. (look or '')
end
return enqueue(request, wait_ms, now) .. (look or '')
