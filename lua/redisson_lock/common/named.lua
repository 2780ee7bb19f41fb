-- named(kind): a key or channel of Redisson that belongs to the lock.
local function named(kind)
  local lock = KEYS[1]
  return kind .. ':' .. (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}')
end
