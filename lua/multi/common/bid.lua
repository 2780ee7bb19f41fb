-- include: common/fence
-- include: common/hold_id
-- include: common/read_waiter
-- include: multi/common/survey
-- include: multi/common/merge_looks
-- include: multi/common/owners
-- include: simple/common/hand_over

-- reserve_everywhere(all, block, now): makes `block` tokens those of all names, larger than any
-- that one of them has had. Answers the first.
local function reserve_everywhere(all, block, now)
  local largest = 0
  for _, name in ipairs(all) do
    largest = math.max(largest, name.fence)
  end
  local first = math.max(now, largest + 1)
  for i, name in ipairs(all) do
    turn_to(i)
    -- As if it were the first that this name could have: its fence is behind it.
    reserve_tokens(name.fence, block, first)
  end
  return string.format('%.0f', first)
end

-- find_tickets(request, all, now): one for all queues: the oldest that it has, or was given before;
-- else larger than the last in each. And its latest attempt, which is the same in all its records.
local function find_tickets(request, all, now)
  local oldest, recorded = request.ticket > 0 and request.ticket or nil, nil
  request.missed = false
  for i, name in ipairs(all) do
    if name.ticket and not recorded then
      turn_to(i)
      recorded = read_waiter(request.hold)
    end
    oldest = name.ticket and math.min(name.ticket, oldest or name.ticket) or oldest
    request.missed = request.missed or not name.ticket and request.attempt > 1
  end
  if not oldest then
    oldest = now
    for i = 1, #names do
      turn_to(i)
      local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2]
      oldest = last and math.max(oldest, tonumber(last) + 1) or oldest
    end
  end
  request.ticket, request.placed = oldest, true
  request.attempt = math.max(request.attempt, recorded and recorded.attempt or 0)
end

-- count_waiting(): at how many of the names others are queued.
local function count_waiting()
  local queues = {}
  for i, name in ipairs(names) do
    queues[i] = name[2]
  end
  return redis.call('EXISTS', unpack(queues))
end

-- answer_again(request, all, now): a repeat of what was granted: one acquisition, with the token
-- that it has.
local function answer_again(request, all, now)
  local lease_ms, fence = math.huge, 0
  for i, name in ipairs(all) do
    turn_to(i)
    local remaining_ms = redis.call('PTTL', KEYS[1])
    if remaining_ms < 0 or not request.manual and remaining_ms < request.lease_ms then
      redis.call('PEXPIRE', KEYS[1], request.lease_ms)
      remaining_ms = request.lease_ms
    end
    if name.ticket then
      remove_waiter(request.hold)
    end
    lease_ms, fence = math.min(lease_ms, remaining_ms), math.max(fence, name.fence)
  end
  local token = fence >= request.block and string.format('%.0f', fence - request.block + 1)
    or reserve_everywhere(all, request.block, now)
  return string.format('granted %s %.0f %d', token, lease_ms, count_waiting())
end

-- grant(request, all, now): all are free, and it is first at each. Answers acquire's reply.
local function grant(request, all, now)
  for i, name in ipairs(all) do
    turn_to(i)
    remove_waiters(name.choice and name.choice.passed_over or {})
    if name.ticket then
      remove_waiter(request.hold)
    end
  end
  local token = reserve_everywhere(all, request.block, now)
  for i = 1, #names do
    redis.call('PSETEX', names[i][1], request.lease_ms, request.hold)
  end
  return 'granted ' .. token .. ' ' .. request.lease_ms .. ' ' .. count_waiting()
end

-- pass_by(name, request, rank, now): the request does not get this name, and whoever may get it now
-- does. `rank` is its place there. Answers the notes, and when it could be free; -1 if that is not
-- known.
local function pass_by(name, request, rank, now)
  local choice = name.choice
  if name.mine then  -- left over from a grant that was lost: a waiter holds nothing
    redis.call('DEL', KEYS[1])
    local look, winner = hand_over(now, name.fence)
    is_full(winner)
    return look, 0
  elseif choice and (is_full(choice.winner) or choice.unfinished and not choice.passed_over[1]) then
    return ' look 1', 0
  elseif name.turn then
    remove_waiters(choice.passed_over)
    return '', 0
  elseif choice then
    choice.request = nil
    choice.follows = rank and rank - #choice.passed_over == 1
    local _, look = settle(choice, name.fence, now)
    return look, choice.winner and choice.winner.claim_ms or 0
  elseif request.calls then
    call_keeper(name.holder, request)
  end
  -- A foreign owner publishes nothing.
  return '', client_of(name.holder) and redis.call('PTTL', KEYS[1]) or -1
end

-- bid(request, now, all): grants all names if all are free and the request is first at each; else
-- none, and it is queued at all, or refused. A name that is free and somebody else's turn is passed
-- on. Answers acquire's reply. `all` is the survey of another hold, which has ended.
local function bid(request, now, all)
  local held = 0
  if not all then
    all, held = survey(request.hold)
  else
    for i, name in ipairs(all) do
      name.ticket = tonumber(redis.call('ZSCORE', names[i][2], request.hold) or nil)
    end
  end
  if held == #names then
    return answer_again(request, all, now)
  end
  find_tickets(request, all, now)
  local grants = true
  for i, name in ipairs(all) do
    turn_to(i)
    if name.free then
      request.queued = name.ticket ~= nil
      local first = name.ticket and redis.call('ZRANGE', KEYS[2], '0', '0')[1] == request.hold
      name.choice = first and {passed_over = {}} or looks_left > 0 and choose(request, now) or
        {passed_over = {}, unfinished = true}
      name.turn = not (name.choice.winner or name.choice.asked or name.choice.unfinished)
    end
    grants = grants and (name.mine or name.turn)
  end
  if grants then
    return grant(request, all, now)
  end

  local looks, retry_after_ms, position, foreign = '', 0, 0, false
  local record = request.wait and record_of(request, now)
  for i, name in ipairs(all) do
    turn_to(i)
    local rank
    if request.wait then
      request.queued = name.ticket ~= nil
      request.holder = not name.free and not name.mine and name.holder or nil
      rank = stand(request, record, now)
      local choice = name.choice or {passed_over = {}}
      position = math.max(position, rank - #choice.passed_over - (choice.winner and 1 or 0))
    end
    local look, free_in_ms = pass_by(name, request, rank, now)
    looks, foreign = looks .. look, foreign or free_in_ms < 0
    retry_after_ms = math.max(retry_after_ms, free_in_ms)
  end
  if request.wait and request.attempt > 1 then  -- of one name: a look at each would take long
    turn_to(1 + now % #names)
    forget_crashed(KEYS[2], now)
  end
  retry_after_ms = foreign and -1 or retry_after_ms
  if not request.wait then
    return 'busy ' .. retry_after_ms .. merge_looks(looks)
  end
  return string.format('queued %d %d %.0f', retry_after_ms, position, request.ticket) ..
    merge_looks(looks) .. caller_notes(request)
end
