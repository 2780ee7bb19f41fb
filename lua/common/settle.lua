-- include: common/queue
-- include: common/choose
-- include: common/remove_waiter
-- include: common/remove_waiters
-- include: common/granted
-- include: common/publish_grant
-- include: common/nudge

-- settle(choice, fence, now): carries out what choose() chose, on a lock that is free. Answers the
-- request (acquire's reply, nil without one), and the look that the caller is asked for: a note, ''
-- for none. Calls take(), which each primitive defines before: it writes who owns the lock, and for
-- how long; if it lets others in as well, request.look_ms is the longest of their claims. The grant
-- is published when all else is written.
local function settle(choice, fence, now)
  local request, winner = choice.request, choice.winner
  remove_waiters(choice.passed_over)
  if winner or choice.unfinished or choice.asked then
    local look_ms, token = 1, nil
    if winner then
      remove_waiter(winner.hold)
      token = reserve_tokens(fence, winner.block, now)
      take(winner, winner.claim_ms, token, now)
      look_ms = math.max(winner.claim_ms, winner.look_ms or 0)
    elseif choice.asked then
      look_ms = nudge(choice, now)
    end
    local reply
    if request and request.wait then
      reply = enqueue(request, look_ms or choice.asked.claim_ms, now, look_ms)
    elseif request then
      reply = 'busy ' .. (look_ms or choice.asked.claim_ms) .. look_note(look_ms)
    end
    if winner then
      publish_grant(winner, token, redis.call('ZCARD', KEYS[2]))
    end
    return reply, look_note(look_ms)
  end
  if request and choice.refused then
    return request.wait and enqueue(request, request.heartbeat_ms, now) or
      'busy ' .. request.heartbeat_ms, ''
  elseif request then
    if request.queued then
      remove_waiter(request.hold)
    end
    local token = reserve_tokens(fence, request.block, now)
    take(request, request.lease_ms, token, now)
    return granted(request, token, request.lease_ms), ''
  end
  return nil, ''
end
