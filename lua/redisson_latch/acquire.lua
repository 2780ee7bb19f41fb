-- Lets the caller through if a Redisson latch (RCountDownLatch) is open.
--
-- KEYS   1 the latch: a string, the count that is left; none: it is open; 2 to 5 as in
--        lua/README.md; 6 rw.readers
-- ARGV   1 to 4 as in lua/README.md; the last: 'listens permits'
-- reply  'granted 0 <lease_ms> 0', or that the caller waits for a message
-- include: redisson_lock/common/read_number
-- include: redisson_lock/common/refuse_readers

local count, refused = read_number('a Redisson latch')
if refused then
  return refused
end
refused = refuse_readers(KEYS[#KEYS], 'a Redisson latch')
if refused then
  return refused
end
if tonumber(count or 0) <= 0 then
  return 'granted 0 ' .. ARGV[2] .. ' 0'
end
return string.match(ARGV[3], '^%d+ %d+ 1') and 'queued 0 1 0' or 'busy 0'
