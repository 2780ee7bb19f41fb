-- include: redisson_lock/common/tagged
-- hold_of(field, number): the key that says when one hold of a reader ends.
local function hold_of(field, number)
  return tagged .. ':' .. field .. ':rwlock_timeout:' .. number
end
