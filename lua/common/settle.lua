-- include: common/choose
-- include: common/remove_waiter
-- include: common/granted

-- settle(choice, fence, now): carries out what choose() chose, on a lock that is free, and answers
-- the request (acquire's reply). Calls take(), which each primitive defines before: it writes who
-- owns the lock. The grant is published when all else is written.
local function settle(choice, fence, now)
  local request, winner = choice.request, choice.winner
  for _, hold in ipairs(choice.passed_over) do
    remove_waiter(hold)
  end
  if winner then
    remove_waiter(winner.hold)
    local reply
    if request and request.wait then
      reply = enqueue(request, winner.lease_ms, now)
    elseif request then
      reply = 'busy ' .. winner.lease_ms
    end
    local token = reserve_tokens(fence, winner.block, now)
    take(winner, token, now)
    redis.call('PUBLISH', winner.channel, 'grant ' .. winner.hold .. ' ' .. winner.attempt ..
      ' ' .. token .. ' ' .. winner.lease_ms .. ' ' .. redis.call('ZCARD', KEYS[2]) .. ' ' ..
      KEYS[1])
    return reply
  end
  if request then
    if request.queued then
      remove_waiter(request.hold)
    end
    local token = reserve_tokens(fence, request.block, now)
    take(request, token, now)
    return granted(token, request.lease_ms)
  end
end
