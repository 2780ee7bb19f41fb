-- For people: ends all grants, also of Java programs, and tells the waiters. Of many readers, it
-- tells 1,000; the others find out when they renew.
--
-- KEYS, ARGV and reply as redisson_lock/force_release's
-- include: redisson_read_write_lock/common/tell
-- include: redisson_read_write_lock/common/read_state
-- include: redisson_lock/common/tell_forced

local mode, bad = read_state('')
if mode == nil then
  return bad
end
if not mode then
  return {'free', 0}
end
local fields = redis.call('HRANDFIELD', KEYS[1], 1000)
redis.call('UNLINK', KEYS[1])
local told = tell_forced(fields)
tell()
return {'released', 0, unpack(told, 1, math.min(#told, 64))}
