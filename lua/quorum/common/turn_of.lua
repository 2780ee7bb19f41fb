-- The turn's key is the last one: '<hold> <until, in us>'. It outlives the turn, so that a waiter
-- that did not come is known.

-- turn_of(now): the grant whose turn it is, and for how many ms more, 0 if it did not come in time;
-- nil if it is no waiter's.
local function turn_of(now)
  local hold, until_us = string.match(redis.call('GET', KEYS[#KEYS]) or '', '^(%S+) (%d+)$')
  return hold, hold and math.max(0, math.ceil((until_us - now) / 1000))
end
