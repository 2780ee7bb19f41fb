-- include: common/remove_waiter
-- include: quorum/common/reserve

-- pass_on(now, leaver): reserves a free node for the next waiter, unless it is reserved already. A
-- waiter that did not come leaves the queue, and returns to its ticket when it asks again.
local function pass_on(now, leaver)
  local reserved, left_ms = reservation(now)
  if reserved and reserved ~= leaver then
    if left_ms > 0 then
      return ''
    end
    remove_waiter(reserved)
  elseif not reserved and redis.call('EXISTS', KEYS[2]) == 0 then
    return ''
  end
  return reserve_for_next(choose(nil, now), now)
end
