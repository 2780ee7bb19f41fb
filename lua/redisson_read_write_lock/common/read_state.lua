-- include: redisson_lock/common/refuse_readers
-- include: common/wrong_kind

-- read_state(field): returns the mode ('read', 'write' or false: it is free), and whether the field
-- has the lock; or nil and an error.
local function read_state(field)
  local found = redis.pcall('HMGET', KEYS[1], 'mode', field)
  local mode = found[1]
  if mode ~= 'read' and mode ~= 'write' and (mode ~= false or
      redis.call('EXISTS', KEYS[1]) == 1) then
    return nil, wrong_kind('a Redisson read-write lock', found.err and found)
  end
  local refused = refuse_readers(KEYS[#KEYS], 'a Redisson read-write lock')
  if refused then
    return nil, refused
  end
  return mode, found[2]
end
