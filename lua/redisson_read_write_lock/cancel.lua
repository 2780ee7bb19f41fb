-- Gives up a write grant: ends it if it was granted meanwhile.
--
-- KEYS   1 to 5 as in lua/README.md; 6 redisson.yield; 7 rw.readers
-- ARGV   1 grant  2 gone_ms  3 amount; the last as acquire's
-- reply  'passed_on' (it had the lock) or 'unknown'
-- include: redisson_lock/common/leave_tombstone
-- include: redisson_read_write_lock/common/end_write

local held = redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 1
if held then
  end_write(ARGV[1], KEYS[6])
end
if ARGV[2] ~= '0' then
  leave_tombstone(KEYS[5], ARGV[2])
end
return held and 'passed_on' or 'unknown'
