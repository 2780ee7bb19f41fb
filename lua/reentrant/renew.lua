-- Extends a hold, and never shortens it. Makes a claim the lease.
--
-- KEYS   1 to 4 as acquire's, and its last
-- ARGV   1 hold  2 lease_ms
-- reply  'held' or 'not_held'
-- include: reentrant/common/renew_hold
return renew_hold('reentrant/2')
