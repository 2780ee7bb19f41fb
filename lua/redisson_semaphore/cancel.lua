-- Gives up a grant: gives its permits back if it was granted meanwhile.
--
-- KEYS   1 to 5 as in lua/README.md; 6 redisson.yield; 7 rw.readers;
--        8 the permits that programs have
-- ARGV   1 grant  2 gone_ms  3 amount; the last as acquire's
-- reply  'passed_on' (it had permits) or 'unknown'
-- include: redisson_semaphore/common/give_back_own
-- include: redisson_lock/common/leave_tombstone
local given_back = give_back_own(ARGV[1])
if ARGV[2] ~= '0' then
  leave_tombstone(KEYS[5], ARGV[2])
end
return given_back and 'passed_on' or 'unknown'
