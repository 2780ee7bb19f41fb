-- Gives up a read grant: ends it if it was granted meanwhile.
--
-- KEYS, ARGV and reply as cancel's
-- include: redisson_lock/common/leave_tombstone
-- include: redisson_read_write_lock/common/end_read

local held = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if held then
  end_read(ARGV[1], KEYS[6])
end
if ARGV[2] ~= '0' then
  leave_tombstone(KEYS[5], ARGV[2])
end
return held and 'passed_on' or 'unknown'
