-- include: common/settle
-- include: reentrant/common/purge

-- decide(request, choice, holds, fence, now): grants a hold that does not own the lock yet, queues
-- it or refuses it. The owner itself is let in at once, past the queue. `choice` is choose()'s.
local function decide(request, choice, holds, fence, now)
  if holds.count == 0 then
    purge(holds)
    return settle(choice, fence, now)
  end
  if holds.owner == request.owner then
    purge(holds)
    local token = reserve_tokens(fence, request.block, now)
    take(request, token, now, holds)
    if request.queued then
      remove_waiter(request.hold)
    end
    return granted(token, request.lease_ms)
  end
  local retry_after_ms = math.ceil((holds.latest - now) / 1000)
  purge(holds)
  if not request.wait then
    return 'busy ' .. retry_after_ms
  end
  return enqueue(request, retry_after_ms, now)
end
