-- Gives permits back, and tells the waiters of all clients.
--
-- KEYS   1 to 6 as in lua/README.md; 7 redisson.yield;
--        8 rw.readers; 9 the permits that programs have
-- ARGV   1 grant  2 'last_used last_reserved gone_ms'  3 owner; the last as acquire's
-- reply  'released' or 'not_held'
-- include: redisson_lock/common/gone_ms_of
-- include: redisson_semaphore/common/give_back_own
-- include: redisson_lock/common/release_again

local gone_ms = gone_ms_of(ARGV[2])
if not give_back_own(ARGV[1]) then
  return release_again(KEYS[5], gone_ms)
end
if gone_ms ~= '0' then
  leave_tombstone(KEYS[5], gone_ms)
end
return 'released'
