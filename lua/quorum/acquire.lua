-- One node's vote for a grant: grants it, queues it until the node is free, or refuses it. The
-- client has the lock when a majority of nodes have granted it.
--
-- KEYS   1 the lock: a string, the owner's grant id and the attempt that was granted; 2 to 5 as in
--        lua/README.md; 6 the reservation; 7 the node's run, if there is a restart delay
-- ARGV   as in lua/README.md; then 'proposed secret mode delay_ms run_id' in one, see
--        quorum/common/proposal. The mode is 'take', or 'queue' to give a vote back and only wait,
--        or 'yield' to let others go first once. 'take' may be left out if there is no restart
--        delay
-- reply  'granted <token> <lease_ms> <others> <now>', 'queued <retry_after_ms> <position>
--        <ticket>', 'busy <retry_after_ms>', 'young <ms>' or 'gone', and notes

-- Two fast paths come first: see simple/acquire. They equal vote_for() and enqueue() if one token
-- is wanted, there is no restart delay, and the proposal becomes the token, since neither clock nor
-- fence is ahead of it.
-- include: common/first_attempt_terms
local attempt_in_record = '^%d+ %d+ %d+ (%d+) '  -- see common/parse_waiter
local call, keys, args = redis.call, KEYS, ARGV
local lock, queue, records, me, terms = keys[1], keys[2], keys[3], args[1], args[3]
local proposal_word = args[#args]
local existing = call('EXISTS', lock, queue, keys[5], keys[6])
if (#proposal_word == 33 or #proposal_word == 16) and string.sub(terms, 1, 2) == '1 ' then
  local proposal = string.sub(proposal_word, 1, 16)
  local attempt, reserved_for_me = '1', false
  if string.sub(terms, 3, 4) ~= '1 ' then
    attempt = string.match(terms, '^%d+ (%d+)')
    reserved_for_me = existing > 0 and
      string.sub(call('GET', keys[6]) or '', 1, #me + 1) == me .. ' '
    if reserved_for_me then
      -- A cancel may have overtaken this attempt.
      local recorded = string.match(call('HGET', records, me) or '', attempt_in_record)
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

  -- Another grant has the node, and this is the first attempt of a request that may wait.
  elseif plausible and attempt == '1' then
    local heartbeat_ms = string.match(terms, first_attempt_terms)
    local holder = heartbeat_ms and redis.pcall('GETRANGE', lock, '0', '79') or ''
    local owner = args[5] and #args[4] .. ' ' .. args[4] or '32 ' .. string.sub(me, 1, 32)
    -- If it has a record already, a later attempt overtook it, or it is a repeat. The secret, if
    -- there is one, follows the owner.
    if not holder.err and string.match(holder, '^%x+:%d+ %d+$') and
        string.sub(holder, 1, #me + 1) ~= me .. ' ' and
        (existing == 1 or call('PTTL', records) >= 2.5 * heartbeat_ms) and
        call('HSETNX', records, me, now .. ' ' .. args[2] .. ' ' .. terms .. ' ' .. owner ..
          string.sub(proposal_word, 17)) == 1 then
      local added = call('ZADD', queue, 'NX', proposal, me) == 1
      local position = call('ZRANK', queue, me)
      -- Only the lock exists; or the lock and the queue: the grant was not given up.
      if added and (existing == 1 or existing == 2 and position > 0) then
        if existing == 1 then
          call('PEXPIRE', queue, 3 * heartbeat_ms)
          call('PEXPIRE', records, 3 * heartbeat_ms)
        end
        return 'queued ' .. call('PTTL', lock) .. ' ' .. position .. ' ' .. proposal
      end
      if added then
        call('ZREM', queue, me)
      end
      call('HDEL', records, me)
    end
  end
end

-- include: common/time
-- include: quorum/common/young
-- include: quorum/common/proposal
local young_ms, error_reply = young(known_run, restart_delay_ms)
if error_reply then
  return error_reply
end

-- young() has removed the node's run from KEYS, so these pieces find the reservation last.
-- include: common/fence
-- include: common/grant_id
-- include: common/request
-- include: common/queue
-- include: quorum/common/read_holder
-- include: common/remove_waiter
-- include: quorum/common/pass_to_next

local now = now_us()
local mode = string.match(proposal_word, '^%d+ ?%x* ?(%a*)')
local votes = (mode == 'take' or mode == '') and young_ms == 0
local near = math.abs(proposed - now) < 1000000
local clock = near and math.max(now, proposed) or now
local clock_of_votes = young_ms == 0 and clock or nil

-- granted(token, lease_ms): returns acquire's reply for a vote.
local function granted(token, lease_ms)
  return string.format('granted %s %.0f %d %.0f', token, lease_ms, call('EXISTS', queue), now)
end

-- vote_for(request): makes the request the owner of this node. Returns acquire's reply.
local function vote_for(request)
  local token = reserve_tokens(read_fence(), request.amount, clock)
  call('SET', lock, request.grant .. ' ' .. request.attempt, 'PX', request.lease_ms)
  return granted(token, request.lease_ms)
end

local request = read_request(0)
local recorded = place_and_prove(request, near, now)
if existing == 0 and votes then
  return vote_for(request)
end
if call('EXISTS', KEYS[5]) == 1 then
  return 'gone'
end

local attempt = request.attempt
-- If a later attempt overtook this one, the client has given up this one.
local late = recorded and recorded.attempt >= attempt
local holder, granted_attempt = read_holder()

if holder == request.grant then
  if granted_attempt > attempt then  -- likewise
    return 'busy 0'
  elseif votes then  -- this is a repeat: the grant keeps its token
    local fence, lease_ms = read_fence(), math.max(1, call('PTTL', lock))  -- SET refuses 0
    if not request.manual then
      lease_ms = math.max(lease_ms, request.lease_ms)
    end
    call('PEXPIRE', lock, '1', 'GT')  -- lets the SET pass if memory is full
    call('SET', lock, request.grant .. ' ' .. attempt, 'PX', lease_ms)
    return granted(string.format('%.0f', fence - request.amount + 1), lease_ms)
  end
  -- The vote is given back, and the grant is queued. With 'queue' the node may be reserved for it
  -- again; with 'yield' another waiter comes first.
  remove_waiter(request.grant)
  call('DEL', lock)
  find_place(request, now)
  if mode ~= 'queue' then
    local check = pass_to_next(choose(nil, now), now, clock_of_votes)
    return enqueue(request, 0, now) .. check
  end
  local reply = enqueue(request, 0, now)
  local choice = choose(nil, now)
  if choice.winner and choice.winner.grant == request.grant then
    choice.winner = nil  -- its place in the queue is enough
  end
  return reply .. (pass_to_next(choice, now, clock_of_votes))
end

-- ask_free_node(): votes for the request if no waiter comes before it. Otherwise passes the node to
-- the next waiter. Returns acquire's reply if it votes. Otherwise returns nil, for how many ms
-- another waiter may have the node, and the handover check as a note.
local function ask_free_node()
  local reserved, left_ms = reservation(now)
  local mine = reserved == request.grant
  if reserved and not mine and left_ms > 0 then
    return nil, left_ms, ''
  end
  if reserved and not mine then  -- that waiter did not come
    remove_waiter(reserved)
  end
  local choice = mine and {passed_over = {}} or choose(request, now)
  if votes and not late and not choice.winner and not choice.unfinished then
    remove_waiters(choice.passed_over)
    if request.queued then
      remove_waiter(request.grant)
    end
    if reserved then
      call('DEL', reservation_key)
    end
    request.attempt = attempt
    return vote_for(request)
  end
  local check, taken_ms = '', 0
  if choice.winner or choice.unfinished then
    check, taken_ms = pass_to_next(choice, now, clock_of_votes)
  elseif reserved and mode == 'queue' then
    if not mine then
      call('DEL', reservation_key)
    end
  elseif reserved then
    remove_waiter(request.grant)
    request.queued = false  -- so that the queue, if it is empty now, gets a TTL again
    check = pass_to_next(choose(nil, now), now, clock_of_votes)
  end
  return nil, choice.winner and taken_ms or 0, check
end

find_place(request, now)
request.missed = false  -- its client knows that it was never here
local reply, wait_ms
local check = ''
if holder ~= '' then
  wait_ms = client_of(holder) and call('PTTL', lock) or -1
elseif young_ms > 0 then
  return 'young ' .. young_ms
else
  reply, wait_ms, check = ask_free_node()
end
return reply or (request.wait and enqueue(request, wait_ms, now) or 'busy ' .. wait_ms) .. check
