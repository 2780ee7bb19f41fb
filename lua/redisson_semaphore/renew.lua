-- Extends the permits of a grant, and never shortens them.
--
-- KEYS   1 to 4 as acquire's; 5 redisson.yield; 6 rw.readers; 7 the permits that programs have
-- ARGV   1 grant  2 lease_ms; the last as acquire's
-- reply  'held' or 'not_held'
-- include: redisson_semaphore/common/ids_of
-- include: redisson_semaphore/common/permits
-- include: redisson_lock/common/now_ms
-- include: redisson_semaphore/common/ends_of
-- include: redisson_semaphore/common/keep

local ids, now = ids_of(ARGV[1], permits), now_ms()
local ends, found = ends_of(ids)
if found < permits then
  return 'not_held'
end
if ends < now + ARGV[2] then
  keep(ids, now + ARGV[2])
end
return 'held'
