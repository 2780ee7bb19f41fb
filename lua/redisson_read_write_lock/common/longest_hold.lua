-- include: redisson_read_write_lock/common/hold_of
-- longest_hold(): how long the last of the readers' holds lasts, in ms; negative if it finds none;
-- whether it has seen all; and whether it is to be called again. Each hold has a key. It looks at
-- 64 fields, and at 8 holds of each: there may be very many, and the hash may be another program's.
-- If there are more, it removes the readers that have died, so that the next call sees others.
local function longest_hold()
  local longest_ms, all = -3, redis.call('HLEN', KEYS[1]) <= 64
  local crowded, removed, fields = not all, 0, redis.call('HRANDFIELD', KEYS[1], 64, 'WITHVALUES')
  for i = 1, #fields, 2 do
    local holds, left_ms = tonumber(fields[i + 1]) or 0, -3
    for number = 1, math.min(holds, 8) do
      left_ms = math.max(left_ms, redis.call('PTTL', hold_of(fields[i], number)))
    end
    all = all and holds <= 8
    if crowded and left_ms < 0 and holds <= 8 and string.find(fields[i], '^[%x-]+:%d+$') then
      removed = removed + redis.call('HDEL', KEYS[1], fields[i])
    end
    longest_ms = math.max(longest_ms, left_ms)
  end
  return longest_ms, all, longest_ms < 0 and removed > 0
end
