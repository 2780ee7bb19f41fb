-- include: common/settle
-- include: reentrant/common/find_grant
-- include: reentrant/common/prolong
-- include: reentrant/common/purge
-- include: reentrant/common/latest_token
-- include: reentrant/common/only_grant

-- decide(request, choice, grants, fence, now): grants, queues or refuses the request. An owner that
-- the user named gets in at once, past the queue, even if one of its waiters gets the lock now. A
-- client counts reentry itself: if it asks while it has a grant, the end of that one is on its way,
-- and it passes no waiter. `choice` is choose()'s. Returns acquire's reply, and the handover check
-- as a note.
local function decide(request, choice, grants, fence, now)
  purge(grants)
  local named = string.sub(request.owner, 1, 5) == 'user:'
  local check = ''
  if grants.count == 0 then
    if not named or not choice.winner or choice.winner.owner ~= request.owner then
      return settle(choice, fence, now)
    end
    if request.queued then
      remove_waiter(request.grant)
    end
    request.queued, choice.request = false, nil
    check = select(2, settle(choice, fence, now))
    request.check_ms = tonumber(string.match(check, '%d+'))
    grants = read_grants(now, 'reentrant/2')
  end
  local mine = find_grant(request.grant, now)
  if mine then
    -- A repeated acquire, or a heartbeat that crossed the grant: the grant keeps its token.
    request.missed = request.attempt > 1
    prolong(grants, mine, request.manual and 0 or now + 1000 * request.lease_ms)
    if request.queued then
      remove_waiter(request.grant)
    end
    return granted(request, mine.token, math.floor((mine.expiry - now) / 1000)), ''
  end
  if grants.owner == request.owner and
      (named or redis.call('ZCARD', KEYS[2]) == (request.queued and 1 or 0)) then
    if request.queued then
      remove_waiter(request.grant)
    end
    -- All grants of a user-named owner have the same token, in every client, because a store must
    -- accept each of them while one lives.
    local token = named and latest_token(grants) or reserve_tokens(fence, request.amount, now)
    take(request, request.lease_ms, token, now, grants)
    return granted(request, token, request.lease_ms), check
  end
  local retry_after_ms = math.ceil((grants.latest - now) / 1000)
  -- If the owner has several grants, no client may cache one.
  request.holder = (request.wait or request.recalls) and only_grant()
  if request.recalls and request.holder then
    recall(request.holder, request)
  end
  if not request.wait then
    return 'busy ' .. retry_after_ms, ''
  end
  return enqueue(request, retry_after_ms, now), ''
end
