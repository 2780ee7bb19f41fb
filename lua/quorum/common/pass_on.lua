-- include: common/remove_waiter
-- include: quorum/common/turn

-- pass_on(now, leaver): passes the turn on, of a node that is free, unless it is a waiter's turn.
-- A waiter that did not come leaves the queue, and returns to its ticket when it asks again.
local function pass_on(now, leaver)
  local turn, left_ms = turn_of(now)
  if turn and turn ~= leaver then
    if left_ms > 0 then
      return ''
    end
    remove_waiter(turn)
  elseif not turn and redis.call('EXISTS', KEYS[2]) == 0 then
    return ''
  end
  return pass_turn(choose(nil, now), now)
end
