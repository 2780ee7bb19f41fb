-- Gives up a write grant: ends it if it was granted meanwhile.
--
-- KEYS   1 to 5 as in lua/README.md; 6 redisson.yield; 7 rw.readers
-- ARGV   1 grant  2 gone_ms  3 amount; the last as acquire's
-- reply  'passed_on' (it had the lock) or 'unknown'
-- include: redisson_lock/common/end_latched
-- include: redisson_read_write_lock/common/end_write

local function latch_it()
  if ARGV[2] ~= '0' then
    end_latched(KEYS[5], ARGV[2])
  end
end
if redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 0 then
  latch_it()
  return 'unknown'
end
end_write(ARGV[1], latch_it, KEYS[6])
return 'passed_on'
