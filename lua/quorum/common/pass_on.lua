-- include: common/remove_waiter
-- include: quorum/common/pass_to_next

-- pass_on(now, leaver, clock): passes a free node to the next waiter, unless it is reserved. If the
-- waiter of an earlier reservation did not ask, it leaves the queue, and returns to its ticket when
-- it asks again. For `clock` see pass_to_next().
local function pass_on(now, leaver, clock)
  local reserved, left_ms = reservation(now)
  if reserved and reserved ~= leaver then
    if left_ms > 0 then
      return ''
    end
    remove_waiter(reserved)
  elseif not reserved and redis.call('EXISTS', KEYS[2]) == 0 then
    return ''
  end
  return (pass_to_next(choose(nil, now), now, clock))
end
