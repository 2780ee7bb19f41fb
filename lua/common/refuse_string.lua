-- include: common/wrong_kind

-- refuse_string(text, expected, key): raises an error if KEYS[1] (or that key) is no string, or is
-- that of a Redisson semaphore or latch: an integer without a TTL. Any other string is the value of
-- a lock, perhaps of a foreign one. `text`: what GETRANGE replied.
local function refuse_string(text, expected, key)
  if text.err or #text <= 20 and string.find(text, '^%-?%d+$') and
      redis.call('PTTL', key or KEYS[1]) == -1 then
    error(wrong_kind(expected, text.err and text, key))
  end
end
