-- include: common/settle
-- include: reentrant/common/find_hold
-- include: reentrant/common/prolong
-- include: reentrant/common/purge
-- include: reentrant/common/latest_token
-- include: reentrant/common/only_hold

-- decide(request, choice, holds, fence, now): grants what is asked for, queues it or refuses it. An
-- owner is let in at once, past the queue, also if one of its waiters gets the lock now. `choice`
-- is choose()'s. Answers acquire's reply, and the look that goes with it.
local function decide(request, choice, holds, fence, now)
  purge(holds)
  local look = ''
  if holds.count == 0 then
    if not choice.winner or choice.winner.owner ~= request.owner or
        string.sub(request.owner, 1, 5) ~= 'user:' then
      return settle(choice, fence, now)
    end
    if request.queued then
      remove_waiter(request.hold)
    end
    request.queued, choice.request = false, nil
    look = select(2, settle(choice, fence, now))
    request.look_ms = tonumber(string.match(look, '%d+'))
    holds = read_holds(now, 'reentrant/2')
  end
  local mine = find_hold(request.hold, now)
  if mine then
    -- A repeat, or a heartbeat that crossed the grant: one grant, with the token that it has.
    request.missed = request.attempt > 1
    prolong(holds, mine, request.manual and 0 or now + 1000 * request.lease_ms)
    if request.queued then
      remove_waiter(request.hold)
    end
    return granted(request, mine.token, math.floor((mine.expiry - now) / 1000)), ''
  end
  if holds.owner == request.owner then
    -- Grants of an owner that its user named stand for one another, in several clients: a store
    -- must take the token of each for as long as one of them lives.
    local token = string.sub(request.owner, 1, 5) == 'user:' and latest_token(holds)
      or reserve_tokens(fence, request.block, now)
    take(request, request.lease_ms, token, now, holds)
    if request.queued then
      remove_waiter(request.hold)
    end
    return granted(request, token, request.lease_ms), look
  end
  local retry_after_ms = math.ceil((holds.latest - now) / 1000)
  -- One of several grants is no client's to keep.
  request.holder = (request.wait or request.calls) and only_hold()
  if request.calls and request.holder then
    call_keeper(request.holder, request)
  end
  if not request.wait then
    return 'busy ' .. retry_after_ms, ''
  end
  return enqueue(request, retry_after_ms, now), ''
end
