-- Counts down, once for each id; at zero tells all who wait.
--
-- KEYS   1 to 5 as create's
-- ARGV   1 'latch:<ttl_ms>:<incarnation>'  2 id  3 n
-- reply  the count as it is now; or the errors GONE, and REFUSED where it is less than n
-- include: common/read_waiter
-- include: latch/common/find
-- include: latch/common/touch

local latch, vanished = find_latch(ARGV[1])
if vanished then
  return vanished
end
local n = tonumber(ARGV[3])
if n == 0 or redis.call('HEXISTS', counted_key, ARGV[2]) == 1 then
  touch(latch)
  return string.format('%.0f', latch.count)
end
if n > latch.count then
  return redis.error_reply(
    string.format('REFUSED it has %.0f to go, which is less than %.0f', latch.count, n))
end

local count = string.format('%.0f', latch.count - n)
local waiters = {}
if count == '0' then
  redis.call('HEXISTS', KEYS[3], '')  -- refuses another type before the first write
  for _, hold in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    waiters[#waiters + 1] = read_waiter(hold)
  end
end
touch(latch)
redis.call('HSET', KEYS[1], 'count', count)
redis.call('HSET', counted_key, ARGV[2], ARGV[3])
redis.call('PEXPIRE', counted_key, latch.ttl_ms)
if count == '0' then
  redis.call('DEL', KEYS[2], KEYS[3])
end
for _, waiter in ipairs(waiters) do
  -- Who waits for an earlier incarnation learns with its next heartbeat that it has vanished.
  if string.match(waiter.owner, '^latch:%d+:(.+)$') == latch.incarnation then
    redis.call('PUBLISH', waiter.channel, 'grant ' .. waiter.hold .. ' ' .. waiter.attempt ..
      ' 0 ' .. waiter.lease_ms .. ' 0 ' .. KEYS[1])
  end
end
return count
