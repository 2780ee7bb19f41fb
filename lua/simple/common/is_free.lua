-- include: simple/common/holder

local has_placeholder = holder == '' and redis.call('GET', KEYS[1]) == placeholder

-- is_free(): returns true if no grant has the lock. Another program's value may be empty.
local function is_free()
  return holder == '' and (has_placeholder or redis.call('EXISTS', KEYS[1]) == 0)
end
