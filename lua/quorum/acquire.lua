-- One node's vote for a hold: grants it, or queues it to be told when it is its turn, or refuses it.
-- The client has the lock when a majority of nodes have granted it.
--
-- KEYS   1 the lock: a string, the owner's hold id and the attempt that was granted; 2 to 5 as in
--        lua/README.md; 6 whose turn it is; 7 the node's run, if there is a restart delay
-- ARGV   as in lua/README.md; then 'take', or 'queue' to give a vote back and only wait; the token
--        and ticket that are proposed; run id; delay_ms
-- reply  'granted <token> <lease_ms> <others> <now>', 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>', 'young <ms>' or 'gone', and notes
-- include: common/time
-- include: common/fence
-- include: common/hold_id
-- include: common/request
-- include: common/queue
-- include: quorum/common/words
-- include: quorum/common/young
-- include: quorum/common/holder
local mode, proposed, run_id, delay_ms = take_words(4)
local young_ms, refused = young(run_id, delay_ms)
if refused then
  return refused
end
local call, lock = redis.call, KEYS[1]
local now = now_us()
-- The clocks of nodes differ; one that is far from this one proposes nothing.
local clock = math.abs(proposed - now) < 1000000 and math.max(now, proposed) or now

local function granted_now(token, lease_ms)
  return string.format('granted %s %.0f %d %.0f', token, lease_ms, call('EXISTS', KEYS[2]), now)
end

local function grant(request)
  local token = reserve_tokens(read_fence(), request.block, clock)
  call('SET', lock, request.hold .. ' ' .. request.attempt, 'PX', request.lease_ms)
  return granted_now(token, request.lease_ms)
end

local request = read_request(0)
if request.ticket == 0 then
  request.ticket = clock  -- so that it stands at the same place on all nodes
end

-- Free, nobody waits, and the hold was not given up: the common case.
local existing = call('EXISTS', lock, KEYS[2], KEYS[5], KEYS[6])
if existing == 0 and mode == 'take' and young_ms == 0 then
  return grant(request)
end

-- include: quorum/common/turn
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
  local look = pass_turn(choose(nil, now), now)
  find_place(request, now)
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
    elseif turn then
      remove_waiter(request.hold)
      look = pass_turn(choose(nil, now), now)
    end
  end
end
if not request.wait then
  return 'busy ' .. wait_ms .. (look or '')
end
return enqueue(request, wait_ms, now) .. (look or '')
