-- include: redisson_lock/common/names
-- include: redisson_lock/common/lease
-- include: redisson_lock/common/wait
-- include: redisson_lock/common/readers
-- include: common/wrong_kind

-- read_state(field): returns the mode ('read', 'write' or false: it is free), and whether the field
-- has the lock; or nil and an error.
local function read_state(field)
  local found = redis.pcall('HMGET', KEYS[1], 'mode', field)
  if found.err or not found[1] and redis.call('EXISTS', KEYS[1]) == 1 then
    return nil, wrong_kind('a Redisson read-write lock', found.err and found)
  end
  local refused = refuse_readers(KEYS[#KEYS], 'a Redisson read-write lock')
  if refused then
    return nil, refused
  end
  return found[1], found[2]
end

local function is_manual(terms)
  return string.match(terms, '^%d+ %d+ %d %d+ (%d)') == '1'
end

-- hold_of(field, number): the key that says when one hold of a reader ends.
local function hold_of(field, number)
  local lock = KEYS[1]
  return (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}') .. ':' .. field ..
    ':rwlock_timeout:' .. number
end
