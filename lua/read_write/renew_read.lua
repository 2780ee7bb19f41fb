-- Extends a read hold, and never shortens it.
--
-- KEYS   1 to 4 as acquire's; 5, 6 as its 6, 7
-- ARGV   1 hold  2 lease_ms
-- reply  'held <others>' (1 where a writer waits or writes) or 'not_held'
-- include: common/time
-- include: read_write/common/state
-- include: read_write/common/others

local now = now_us()
local state = read_state(now)
local expiry = tonumber(redis.call('ZSCORE', readers_key, ARGV[1])) or 0
local held = expiry > now
if held then
  -- Comes first since it needs no memory.
  redis.call('PEXPIRE', readers_key, ARGV[2], 'GT')
  redis.call('ZADD', readers_key, 'GT', now + 1000 * ARGV[2], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', readers_key, '-inf', now)
return held and 'held ' .. others(state.holds, now) or 'not_held'
