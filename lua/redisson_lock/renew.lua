-- Extends a grant, and never shortens it. Serves the locks whose hash has a field for the grant.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 grant  2 lease_ms; the last as acquire's
-- reply  'held' or 'not_held'
-- include: redisson_lock/common/extend
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 'not_held'
end
extend(KEYS[1], ARGV[2])
return 'held'
