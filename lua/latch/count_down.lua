-- Counts down, once per id. At zero it opens the latch for a window of waiters, and a repeat
-- continues with the next window. Above zero it invites the first waiter, which then learns how
-- many ids have counted, and so notices later if a promoted server lacks a count.
--
-- KEYS   1 to 5 as create's
-- ARGV   1 'latch:<ttl_ms>:<incarnation>'  2 id  3 n  4 for a repeat: when it counted, in us, as an
--        earlier reply said. A repeat does not prolong the latch
-- reply  '<count> <when>': the count, and when this id counted; and the notes ' again' (the server
--        did not know this repeated count) and ' look 1' (there are more waiters); or the errors
--        GONE, and REFUSED if the count is less than n
-- include: common/time
-- include: latch/common/find
-- include: latch/common/touch
-- include: latch/common/wake

local now = now_us()
local latch, vanished = find_latch(ARGV[1], now)
if vanished then
  return vanished
end
local n, again = tonumber(ARGV[3]), ARGV[4]
local when = n == 0 and '0' or redis.call('ZSCORE', counted_key, ARGV[2])
local counts = not when
if counts and n > latch.count then
  return redis.error_reply(
    string.format('REFUSED it has only %.0f to go, not %.0f', latch.count, n))
end
local count = latch.count - (counts and n or 0)
-- These refuse another type before the first write.
local first = counts and redis.call('ZRANGE', KEYS[2], '0', '0')[1]
local record = first and redis.call('HGET', KEYS[3], first)
if count == 0 then
  redis.call('HEXISTS', KEYS[3], '')
end

if again and not counts then
  redis.call('PEXPIRE', KEYS[1], '1', 'GT')  -- changes nothing, but a replica refuses it
else
  touch(latch)
end
if counts then
  local last = redis.call('ZRANGE', counted_key, '-1', '-1', 'WITHSCORES')[2]
  when = again or string.format('%.0f', math.max(now, last and last + 1 or 0))
  redis.call('HSET', KEYS[1], 'count', string.format('%.0f', count))
  redis.call('ZADD', counted_key, when, ARGV[2])
  redis.call('PEXPIRE', counted_key, latch.ttl_ms)
  local waiter = count > 0 and record and parse_waiter(first, record)
  if waiter then
    redis.call('PUBLISH', waiter.channel, 'look ' .. first .. ' ' .. KEYS[1])
  end
end
return string.format('%.0f ', count) .. when .. (again and counts and ' again' or '') ..
  (count == 0 and wake(latch) or '')
