-- include: common/hold_id
-- include: multi/common/survey
-- include: multi/common/merge_looks
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

-- find_ticket(request, now): one for all queues: the oldest that it has, or was given before; else
-- larger than the last in each.
local function find_ticket(request, now)
  local last = now
  local oldest = request.ticket > 0 and request.ticket or nil
  for i = 1, #names do
    turn_to(i)
    local mine = tonumber(redis.call('ZSCORE', KEYS[2], request.hold) or nil)
    oldest = mine and math.min(mine, oldest or mine) or oldest
    local behind = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2]
    last = behind and math.max(last, tonumber(behind) + 1) or last
  end
  request.ticket = oldest or last
end

-- answer_again(request, all, now): a repeat of what was granted: one acquisition, with the token
-- that it has.
local function answer_again(request, all, now)
  local lease_ms, waiting, fence = math.huge, 0, 0
  for i, name in ipairs(all) do
    turn_to(i)
    local remaining_ms = redis.call('PTTL', KEYS[1])
    if remaining_ms < 0 or not request.manual and remaining_ms < request.lease_ms then
      redis.call('PEXPIRE', KEYS[1], request.lease_ms)
      remaining_ms = request.lease_ms
    end
    remove_waiter(request.hold)
    lease_ms, fence = math.min(lease_ms, remaining_ms), math.max(fence, name.fence)
    waiting = waiting + redis.call('ZCARD', KEYS[2])
  end
  local token = fence >= request.block and string.format('%.0f', fence - request.block + 1)
    or reserve_everywhere(all, request.block, now)
  return string.format('granted %s %.0f %d', token, lease_ms, waiting)
end

-- bid(request, now, looks): grants all names if all are free and the request is first at each; else
-- none, and it is queued at all, or refused. A name that is free and somebody else's turn is passed
-- on. Answers acquire's reply; `looks` are those that were asked for before.
local function bid(request, now, looks)
  local all, held = survey(request.hold)
  if held == #names then
    return answer_again(request, all, now) .. merge_looks(looks)
  end
  find_ticket(request, now)
  local grants, missed = true, false
  for i, name in ipairs(all) do
    turn_to(i)
    if name.free then
      name.choice = choose(request, now)
      name.choice.request = nil
      name.turn = not (name.choice.winner or name.choice.asked or name.choice.unfinished)
    else
      find_place(request, now)
    end
    name.queued = request.queued
    missed = missed or request.missed
    grants = grants and (name.mine or name.turn)
  end

  if grants then
    local waiting = 0
    for i, name in ipairs(all) do
      turn_to(i)
      remove_waiters(name.choice and name.choice.passed_over or {})
      if name.queued then
        remove_waiter(request.hold)
      end
      waiting = waiting + redis.call('ZCARD', KEYS[2])
    end
    local token = reserve_everywhere(all, request.block, now)
    for i = 1, #names do
      turn_to(i)
      take(request, request.lease_ms)
    end
    return 'granted ' .. token .. ' ' .. request.lease_ms .. ' ' .. waiting .. merge_looks(looks)
  end

  local retry_after_ms, foreign, position = 0, false, 0
  for i, name in ipairs(all) do
    turn_to(i)
    local rank
    if request.wait then
      request.queued = name.queued
      request.holder = not name.free and not name.mine and name.holder or nil
      enqueue(request, 0, now)
      remove_waiters(name.choice and name.choice.passed_over or {})
      rank = redis.call('ZRANK', KEYS[2], request.hold)
    end
    if name.mine then  -- what is left of a hold that was lost: whoever waits holds nothing
      redis.call('DEL', KEYS[1])
      looks = looks .. hand_over(now, name.fence)
    elseif name.turn then
      remove_waiters(name.choice.passed_over)
    elseif name.choice then
      name.choice.follows = rank == 1
      local _, look = settle(name.choice, name.fence, now)
      looks = looks .. look
      retry_after_ms = math.max(retry_after_ms,
        name.choice.winner and name.choice.winner.claim_ms or 0)
    else
      retry_after_ms = math.max(retry_after_ms, redis.call('PTTL', KEYS[1]))
      foreign = foreign or not client_of(name.holder)
      if request.calls then
        call_keeper(name.holder, request.channel)
      end
    end
    position = math.max(position,
      request.wait and redis.call('ZRANK', KEYS[2], request.hold) or 0)
  end
  -- A foreign owner publishes nothing.
  retry_after_ms = foreign and -1 or retry_after_ms
  if not request.wait then
    return 'busy ' .. retry_after_ms .. merge_looks(looks)
  end
  request.missed = missed
  return string.format('queued %d %d %.0f', retry_after_ms, position, request.ticket) ..
    merge_looks(looks) .. caller_notes(request)
end
