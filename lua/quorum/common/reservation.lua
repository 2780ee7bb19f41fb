-- The last key is the reservation: '<grant> <until, in us>'. The key outlives that time, so that a
-- waiter that did not ask in time is recognized.
local reservation_key = KEYS[#KEYS]

-- reservation(now): returns the grant that the node is reserved for, and for how many more ms (0:
-- it did not ask in time). Returns nil if there is none.
local function reservation(now)
  local grant, until_us = string.match(redis.call('GET', reservation_key) or '', '^(%S+) (%d+)$')
  return grant, grant and math.max(0, math.ceil((until_us - now) / 1000))
end
