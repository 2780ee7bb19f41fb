-- include: common/queue
-- include: common/choose
-- include: common/remove_waiter
-- include: common/remove_waiters
-- include: common/publish_grant
-- include: common/invite

-- granted(request, token, lease_ms): returns acquire's reply for a grant that owns the lock.
local function granted(request, token, lease_ms)
  return 'granted ' .. token .. ' ' .. lease_ms .. ' ' .. redis.call('ZCARD', KEYS[2]) ..
    check_note(request.check_ms) .. (request.missed and ' missed' or '')
end

-- settle(choice, fence, now): executes choose()'s choice for a free lock. Returns acquire's reply
-- (nil without a request) and the handover check as a note. Each primitive defines take(), which
-- writes the owner and its lease. If take() admits other waiters too, it sets request.check_ms to
-- their longest claim. The grant is published after all writes.
local function settle(choice, fence, now)
  local request, winner = choice.request, choice.winner
  remove_waiters(choice.passed_over)
  if winner or choice.unfinished or choice.invited then
    local check_ms, token = 1, nil
    if winner then
      remove_waiter(winner.grant)
      token = reserve_tokens(fence, winner.amount, now)
      take(winner, winner.claim_ms, token, now)
      check_ms = math.max(winner.claim_ms, winner.check_ms or 0)
    elseif choice.invited then
      check_ms = invite(choice, now)
    end
    local reply
    if request and request.wait then
      reply = enqueue(request, check_ms or choice.invited.claim_ms, now, check_ms)
    elseif request then
      reply = 'busy ' .. (check_ms or choice.invited.claim_ms) .. check_note(check_ms)
    end
    if winner then
      publish_grant(winner, token, redis.call('ZCARD', KEYS[2]))
    end
    return reply, check_note(check_ms)
  end
  if request and choice.refused then
    return request.wait and enqueue(request, request.heartbeat_ms, now) or
      'busy ' .. request.heartbeat_ms, ''
  elseif request then
    if request.queued then
      remove_waiter(request.grant)
    end
    local token = reserve_tokens(fence, request.amount, now)
    take(request, request.lease_ms, token, now)
    return granted(request, token, request.lease_ms), ''
  end
  return nil, ''
end
