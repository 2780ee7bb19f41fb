-- include: redisson_read_write_lock/common/hold_of
-- longest_hold(): how long the last of the readers' holds lasts, in ms; negative if there is none.
local function longest_hold()
  local longest_ms, fields = -3, redis.call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    for number = tonumber(fields[i + 1]) or 0, 1, -1 do
      longest_ms = math.max(longest_ms, redis.call('PTTL', hold_of(fields[i], number)))
    end
  end
  return longest_ms
end
