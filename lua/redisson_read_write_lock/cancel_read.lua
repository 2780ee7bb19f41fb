-- Gives up a read grant: ends it if it was granted meanwhile. If not, and there are very many,
-- checks whether the others have died: an earlier call may have seen only some of them.
--
-- KEYS, ARGV and reply as cancel's
-- include: redisson_lock/common/leave_tombstone
-- include: redisson_read_write_lock/common/end_read

local held = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
local crowded = redis.call('HLEN', KEYS[1]) > 64 and redis.call('HGET', KEYS[1], 'mode') == 'read'
local note = (held or crowded) and end_read(ARGV[1], KEYS[6]) or ''
if ARGV[2] ~= '0' then
  leave_tombstone(KEYS[5], ARGV[2])
end
return (held and 'passed_on' or 'unknown') .. note
