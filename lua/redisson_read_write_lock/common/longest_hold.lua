-- include: redisson_read_write_lock/common/hold_of
-- longest_hold(): how long the last of the readers' holds lasts, in ms; negative if there is none.
-- It looks at 1,000 holds of each field at most, since the hash may be another program's.
local function longest_hold()
  local longest_ms, fields = -3, redis.call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    for number = 1, math.min(tonumber(fields[i + 1]) or 0, 1000) do
      longest_ms = math.max(longest_ms, redis.call('PTTL', hold_of(fields[i], number)))
    end
  end
  return longest_ms
end
