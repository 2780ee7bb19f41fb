-- Counts down, once for each id. At zero it tells those who wait, a window of them: a repeat goes
-- on with that.
--
-- KEYS   1 to 5 as create's
-- ARGV   1 'latch:<ttl_ms>:<incarnation>'  2 id  3 n
-- reply  the count as it is now, and the note ' look 1' if there are more to tell; or the errors
--        GONE, and REFUSED if the count is less than n
-- include: latch/common/find
-- include: latch/common/touch
-- include: latch/common/wake

local latch, vanished = find_latch(ARGV[1])
if vanished then
  return vanished
end
local n = tonumber(ARGV[3])
local counts = n > 0 and redis.call('HEXISTS', counted_key, ARGV[2]) == 0
if counts and n > latch.count then
  return redis.error_reply(
    string.format('REFUSED it has %.0f to go, which is less than %.0f', latch.count, n))
end
local count = latch.count - (counts and n or 0)
if count == 0 then
  redis.call('ZCARD', KEYS[2])  -- these refuse another type before the first write
  redis.call('HEXISTS', KEYS[3], '')
end
touch(latch)
if counts then
  redis.call('HSET', KEYS[1], 'count', string.format('%.0f', count))
  redis.call('HSET', counted_key, ARGV[2], ARGV[3])
  redis.call('PEXPIRE', counted_key, latch.ttl_ms)
end
return string.format('%.0f', count) .. (count == 0 and wake(latch) or '')
