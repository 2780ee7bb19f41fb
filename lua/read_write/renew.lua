-- Extends a write hold, and never shortens it.
--
-- KEYS   1 to 4 as acquire's; 5, 6 as its 6, 7
-- ARGV   1 hold  2 lease_ms
-- reply  'held' or 'not_held'
-- include: reentrant/common/renew_hold
return renew_hold('read_write')
