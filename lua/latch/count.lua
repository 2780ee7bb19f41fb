-- Reads the count.
--
-- KEYS   1 to 5 as create's
-- ARGV   1 'latch:<ttl_ms>:<incarnation>'
-- reply  the count, or the error GONE
-- include: common/time
-- include: latch/common/find
-- include: latch/common/touch

local latch, vanished = find_latch(ARGV[1], now_us())
if vanished then
  return vanished
end
touch(latch)
return string.format('%.0f', latch.count)
