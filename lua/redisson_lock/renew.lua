-- Extends a grant of a Redisson lock, and never shortens it.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 grant  2 lease_ms; the last as acquire's
-- reply  'held' or 'not_held'
-- include: redisson_lock/common/renew
return renew(ARGV[1])
