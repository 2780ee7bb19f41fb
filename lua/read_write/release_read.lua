-- Ends a read hold; if it was the last, the lock passes on. Queues the same client again if it asks
-- for that, as release does.
--
-- KEYS   as release's
-- ARGV   1 hold; if there is more to do: 2 'last_used last_reserved gone_ms', of which a reader has
--        gone_ms only  3 owner  4.. nothing, or all ARGV of acquire_read for a fresh hold
-- reply  'released', 'released ' and acquire_read's reply for the fresh hold, or 'not_held'; and
--        notes

-- No reader's lease is over, there is nothing else to do, and nobody waits; or a writer does, and
-- others read on.
local call, keys, me = redis.call, KEYS, ARGV[1]
if not ARGV[2] then
  local lock, queue, readers, writers = keys[1], keys[2], keys[5], keys[6]
  local waiting = call('EXISTS', queue, writers)
  local time = call('TIME')
  local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
  if call('ZCOUNT', readers, '-inf', now) == 0 and
      (waiting == 0 or call('EXISTS', lock, writers, writers) == 2 and
        call('ZCARD', readers) > 1) and
      call('ZREM', readers, me) == 1 then
    return 'released'
  end
end

-- include: common/time
-- include: common/ending
-- include: read_write/common/end_read
-- include: read_write/common/read_bid

local now = now_us()
local ending = read_ending()
local again = ARGV[4] ~= nil
local given_up = again and redis.call('EXISTS', KEYS[6]) == 1
local held, reply, look = end_read(ARGV[1], ending.gone_ms,
  again and not given_up and read_bid(3) or nil, now)
return (held and 'released' or 'not_held') ..
  (reply and ' ' .. reply or held and given_up and ' gone' .. look or look)
