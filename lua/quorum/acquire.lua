-- One node's vote for a grant: grants it, queues it until the node is free, or refuses it. The
-- client has the lock when a majority of nodes have granted it.
--
-- KEYS   1 the lock: a string, the owner's grant id and the attempt that was granted; 2 to 5 as in
--        lua/README.md; 6 the reservation; 7 the node's run, if there is a restart delay
-- ARGV   as in lua/README.md; then 'token mode delay_ms run_id' in one: the proposed token and
--        ticket; 'take', or 'queue' to give a vote back and only wait, or 'yield' to let others go
--        first once. Without a restart delay the last two are left out, and 'take' too
-- reply  'granted <token> <lease_ms> <others> <now>', 'queued <retry_after_ms> <position>
--        <ticket>', 'busy <retry_after_ms>', 'young <ms>' or 'gone', and notes

-- The common cases come first, in line as in simple/acquire: one token is wanted, there is no
-- restart delay, and the proposal becomes the token, since neither clock nor fence is ahead of it.
local call, keys, args = redis.call, KEYS, ARGV
local lock, queue, records, me, terms = keys[1], keys[2], keys[3], args[1], args[3]
local proposal = args[#args]
local existing = call('EXISTS', lock, queue, keys[5], keys[6])
if #proposal == 16 and string.sub(terms, 1, 2) == '1 ' then
  local attempt, reserved_for_me = '1', false
  if string.sub(terms, 3, 4) ~= '1 ' then
    attempt = string.match(terms, '^%d+ (%d+)')
    reserved_for_me = existing > 0 and
      string.sub(call('GET', keys[6]) or '', 1, #me + 1) == me .. ' '
    if reserved_for_me then
      -- A cancel may have overtaken this attempt.
      local recorded = string.match(call('HGET', records, me) or '', '^%d+ %d+ %d+ (%d+) ')
      reserved_for_me = recorded and tonumber(recorded) < tonumber(attempt)
    end
  end
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  local plausible = proposal >= now and proposal - now < 1000000

  -- The node is free and no client waits, or it is reserved for this grant; the grant was not given
  -- up.
  if existing == 0 or reserved_for_me and call('EXISTS', lock, keys[5]) == 0 then
    local fence = plausible and call('GET', keys[4])
    if fence and #fence == 16 and fence < proposal and fence >= string.sub(proposal, 1, 8) then
      local others = ' 0 '
      if reserved_for_me then
        call('ZREM', queue, me)
        call('HDEL', records, me)
        call('DEL', keys[6])
        others = call('EXISTS', queue) == 1 and ' 1 ' or ' 0 '
      end
      call('SETRANGE', keys[4], '0', proposal)
      call('PSETEX', lock, args[2], me .. ' ' .. attempt)
      return 'granted ' .. proposal .. ' ' .. args[2] .. others .. now
    end

  -- Another grant has the node, and this is the first attempt of a request that may wait. If it is
  -- queued already, a later attempt overtook it, or it is a repeat.
  elseif plausible and attempt == '1' then
    local heartbeat_ms = string.match(terms, '^%d+ 1 1 (%d+) %d 0 %d+ 0 ')
    local holder = heartbeat_ms and call('GETRANGE', lock, '0', '79') or ''
    if string.match(holder, '^%x+:%d+ %d+$') and string.sub(holder, 1, #me + 1) ~= me .. ' ' and
        call('EXISTS', keys[5]) == 0 and not call('HGET', records, me) and
        call('ZADD', queue, 'NX', proposal, me) == 1 then
      local owner = args[5] and #args[4] .. ' ' .. args[4] or '32 ' .. string.sub(me, 1, 32)
      call('HSET', records, me, now .. ' ' .. args[2] .. ' ' .. terms .. ' ' .. owner)
      -- This is also true if one of them is new and has no TTL.
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
-- include: common/grant_id
-- include: common/request
-- include: common/queue
-- include: quorum/common/young
-- include: quorum/common/read_holder
-- include: common/remove_waiter
-- include: quorum/common/reserve
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
-- Node clocks differ; a proposal that is far from this node's clock is ignored.
local near = math.abs(proposed - now) < 1000000
local clock = near and math.max(now, proposed) or now

local function granted_now(token, lease_ms)
  return string.format('granted %s %.0f %d %.0f', token, lease_ms, call('EXISTS', queue), now)
end

local function grant_vote(request)
  local token = reserve_tokens(read_fence(), request.block, clock)
  call('SET', lock, request.grant .. ' ' .. request.attempt, 'PX', request.lease_ms)
  return granted_now(token, request.lease_ms)
end

local request = read_request(0)
if request.ticket == 0 then
  -- The waiter gets the same place on all nodes, even if one of them is asked late.
  request.ticket = near and tonumber(proposed) or now
end
if existing == 0 and mode == 'take' and young_ms == 0 then
  return grant_vote(request)
end

if call('EXISTS', KEYS[5]) == 1 then
  return 'gone'
end
local attempt = request.attempt
local recorded = read_waiter(request.grant)
-- This attempt was given up by a later one that overtook it.
local late = recorded and recorded.attempt >= attempt
local holder, granted_attempt = read_holder()

if holder == request.grant then
  if granted_attempt > attempt then  -- so was this
    return 'busy 0'
  elseif mode == 'take' and young_ms == 0 then
    local fence = read_fence()
    local lease_ms = call('PTTL', lock)
    if not request.manual then
      lease_ms = math.max(lease_ms, request.lease_ms)
    end
    call('SET', lock, request.grant .. ' ' .. attempt, 'PX', lease_ms)
    return granted_now(string.format('%.0f', fence - request.block + 1), lease_ms)
  end
  remove_waiter(request.grant)
  call('DEL', lock)
  find_place(request, now)
  if mode == 'queue' then
    -- If the request itself is first, its place in the queue is enough.
    local reply = enqueue(request, 0, now)
    local choice = choose(nil, now)
    if choice.winner and choice.winner.grant == request.grant then
      choice.winner = nil
    end
    return reply .. reserve_for_next(choice, now)
  end
  local check = reserve_for_next(choose(nil, now), now)
  return enqueue(request, 0, now) .. check
end

find_place(request, now)
request.missed = false  -- that it was never here is no news
local wait_ms, check
if holder ~= '' then
  wait_ms = client_of(holder) and call('PTTL', lock) or -1
elseif young_ms > 0 then
  return 'young ' .. young_ms
else
  local reserved, left_ms = reservation(now)
  local mine = reserved == request.grant
  if reserved and not mine and left_ms > 0 then
    wait_ms = left_ms
  else
    if reserved and not mine then
      remove_waiter(reserved)
    end
    local choice = mine and {passed_over = {}} or choose(request, now)
    if mode == 'take' and not late and not choice.winner and not choice.unfinished then
      remove_waiters(choice.passed_over)
      if request.queued then
        remove_waiter(request.grant)
      end
      if reserved then
        call('DEL', KEYS[6])
      end
      request.attempt = attempt
      return grant_vote(request)
    end
    wait_ms = choice.winner and reserved_ms or 0
    if choice.winner or choice.unfinished then
      check = reserve_for_next(choice, now)
    elseif reserved and mode == 'queue' then
      if not mine then
        call('DEL', KEYS[6])
      end
    elseif reserved then
      remove_waiter(request.grant)
      request.queued = false  -- so that the queue, if it is empty now, gets a TTL again
      check = reserve_for_next(choose(nil, now), now)
    end
  end
end
if not request.wait then
  return 'busy ' .. wait_ms .. (check or '')
end
return enqueue(request, wait_ms, now) .. (check or '')
