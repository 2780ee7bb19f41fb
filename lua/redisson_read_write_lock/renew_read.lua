-- Extends a read grant, and never shortens it.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 grant  2 lease_ms; the last as acquire's
-- reply  'held' or 'not_held'
-- include: redisson_lock/common/extend
-- include: redisson_read_write_lock/common/hold_of

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 'not_held'
end
extend(KEYS[1], ARGV[2])
local hold = hold_of(ARGV[1], 1)
if redis.call('EXISTS', hold) == 1 then
  extend(hold, ARGV[2])
else
  redis.call('SET', hold, '1', 'PX', ARGV[2])
end
return 'held'
