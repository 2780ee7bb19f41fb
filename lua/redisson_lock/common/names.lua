-- named(prefix): a key or channel of Redisson that belongs to the lock.
local function named(prefix)
  local lock = KEYS[1]
  return prefix .. ':' .. (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}')
end
-- What every call ends with: whether this client listens on the lock's channel ('1' or '0'), how
-- many permits the grant has, and arguments of the class.
local listens, permits, class_arg = string.match(ARGV[#ARGV], '^([01]) (%d+) ?(%d*)$')
