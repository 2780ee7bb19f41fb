-- Returns, sets or lowers the count of a Redisson latch, and tells the waiters.
--
-- KEYS   1 to 4 as acquire's; 5 redisson.counted.<id>: this call was executed
-- ARGV   1 'count', 'set' or 'down'  2 the number  3 for how long the call may be repeated, in ms;
--        the last as acquire's
-- reply  the count; after that of a 'set', 'set' or 'kept'
-- include: redisson_lock/common/read_number

local count, refused = read_number('a Redisson latch')
if refused then
  return refused
end
count = count or '0'
local function tell(message)
  redis.call('PUBLISH', 'redisson_countdownlatch__channel__{' .. KEYS[1] .. '}', message)
end
local how, number = ARGV[1], ARGV[2]
-- The mark outlives the call's repeats, of which one may still be on its way.
local mark_ms = math.min(math.max(60000, ARGV[3]), 86400000)
if how == 'set' then
  local again = redis.call('GET', KEYS[5])
  if again or redis.call('EXISTS', KEYS[1]) == 1 then
    return count .. (again and ' set' or ' kept')
  end
  redis.call('SET', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[5], '1', 'PX', mark_ms)
  tell('1')
  return ARGV[2] .. ' set'
end
local counts = how == 'down' and tonumber(count) > 0 and number ~= '0'
if counts and not redis.call('GET', KEYS[5]) then
  redis.call('PEXPIRE', KEYS[1], '1', 'GT')  -- lets what follows pass if memory is full
  if redis.call('DECRBY', KEYS[1], number) <= 0 then
    redis.call('DEL', KEYS[1])
    tell('0')
  end
  redis.call('SET', KEYS[5], '1', 'PX', mark_ms)
  count = redis.call('GET', KEYS[1]) or '0'
end
return count
