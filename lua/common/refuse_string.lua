-- include: common/wrong_kind

-- refuse_string(value, expected, key): raises an error if KEYS[1] (or that key) is no string, or is
-- that of a Redisson semaphore or latch: an integer without a TTL. Any other string is the value of
-- a lock, perhaps of a foreign one. `value`: what GETRANGE replied.
local function refuse_string(value, expected, key)
  if value.err or
      string.find(value, '^%-?%d+$') and redis.call('PTTL', key or KEYS[1]) == -1 then
    error(wrong_kind(expected, value.err and value, key))
  end
end
