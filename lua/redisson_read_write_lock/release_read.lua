-- Ends a read grant of a Redisson read-write lock. The last one tells the waiters of all clients.
--
-- KEYS   1 to 6 as in lua/README.md; 7 redisson.yield;
--        8 rw.readers
-- ARGV   1 grant  2 'last_used last_reserved gone_ms'  3 owner; the last as acquire's
-- reply  'released' or 'not_held', and a note, as in lua/README.md
-- include: redisson_lock/common/gone_ms_of
-- include: redisson_lock/common/release_again
-- include: redisson_read_write_lock/common/end_read
-- include: redisson_lock/common/leave_tombstone
local gone_ms = gone_ms_of(ARGV[2])
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return release_again(KEYS[5], gone_ms)
end
local note = end_read(ARGV[1], KEYS[7])
leave_tombstone(KEYS[5], gone_ms)
return 'released' .. note
