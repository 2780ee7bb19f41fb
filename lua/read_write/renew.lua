-- Extends a write hold, and never shortens it.
--
-- KEYS   1 to 4 as acquire's; 5, 6 as its 6, 7
-- ARGV   1 hold  2 lease_ms
-- reply  'held' or 'not_held'
-- include: common/time
-- include: reentrant/common/holds
-- include: reentrant/common/purge

local now = now_us()
local holds = read_holds(now, 'read_write')
local mine = holds.live[ARGV[1]]
if mine then
  mine.expiry = math.max(mine.expiry, now + 1000 * ARGV[2])
  holds.latest = math.max(holds.latest, mine.expiry)
end
purge(holds)
if not mine then
  return 'not_held'
end
redis.call('PEXPIREAT', KEYS[1], math.ceil(holds.latest / 1000))
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', mine.expiry) .. mine.token)
return 'held'
