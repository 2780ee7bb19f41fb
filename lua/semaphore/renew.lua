-- Extends a grant, as simple/renew does.
--
-- KEYS   1 to 4 as acquire's; 5 semaphore.permits
-- ARGV   1 grant  2 lease_ms
-- reply  'held' or 'not_held'
-- include: common/time
-- include: semaphore/common/settings
-- include: semaphore/common/touch

local now = now_us()
local settings = read_settings()
if tonumber(redis.call('ZSCORE', permits_key, ARGV[1]) or 0) <= now then
  return 'not_held'
end
-- This comes first, since it needs no memory.
redis.call('PEXPIRE', permits_key, ARGV[2], 'GT')
redis.call('ZADD', permits_key, 'GT', now + 1000 * ARGV[2], ARGV[1])
touch(settings, now + 1000 * ARGV[2])
return 'held'
