-- The last key is the reservation: '<grant> <until, in us>'. It outlives the time that it states,
-- so that a waiter that did not come is recognized.
local reservation_key = KEYS[#KEYS]

-- reservation(now): the grant that the node is reserved for, and for how many more ms (0: it did
-- not come in time); nil if there is none.
local function reservation(now)
  local grant, until_us = string.match(redis.call('GET', reservation_key) or '', '^(%S+) (%d+)$')
  return grant, grant and math.max(0, math.ceil((until_us - now) / 1000))
end
