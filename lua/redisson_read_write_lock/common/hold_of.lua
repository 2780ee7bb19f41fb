-- hold_of(field, number): the key that says when one hold of a reader ends.
local function hold_of(field, number)
  local lock = KEYS[1]
  return (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}') .. ':' .. field ..
    ':rwlock_timeout:' .. number
end
