-- The lock holds '<hold> <attempt>': which attempt of the grant was granted, so that what gives up
-- an earlier one, and comes late, does not end it.

-- read_holder(): grant and attempt; '' and 0 where the lock is free, and a part of what a foreign
-- owner has stored. Any other type is an error.
local function read_holder()
  local value = redis.call('GETRANGE', KEYS[1], '0', '79')
  local hold, attempt = string.match(value, '^(%x+:%d+) (%d+)$')
  if value == '' and redis.call('EXISTS', KEYS[1]) == 1 then
    value = ' '
  end
  return hold or value, tonumber(attempt) or 0
end
