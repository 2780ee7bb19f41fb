-- Gives up a read grant: ends it if it was granted meanwhile.
--
-- KEYS, ARGV and reply as cancel's
-- include: redisson_lock/common/end_latched
-- include: redisson_read_write_lock/common/end_read

local function latch_it()
  if ARGV[2] ~= '0' then
    end_latched(KEYS[5], ARGV[2])
  end
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  latch_it()
  return 'unknown'
end
end_read(ARGV[1], latch_it, KEYS[6])
return 'passed_on'
