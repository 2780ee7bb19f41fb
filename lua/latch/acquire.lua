-- If the latch is open, lets the caller and a window of other waiters through. Otherwise queues the
-- caller, or refuses it.
--
-- KEYS   1 the latch, as create's; 2 to 5 as in lua/README.md; 6 as create's 5
-- ARGV   1 grant  2 lease_ms  3 'amount attempt wait heartbeat_ms manual ticket claim_ms
--        listen channel'
--        4 'latch:<ttl_ms>:<incarnation>'  5 '<counts> <last>', if the caller was told how many
--        have counted, and when the last did
-- reply  'granted 0 <lease_ms> 0': it is open. 'queued <retry_after_ms> <position> <ticket>',
--        'busy <retry_after_ms>' or 'gone', and notes, of which ' told <counts> <last>' comes last;
--        or the error GONE, and then the caller is not queued any more
-- include: common/time
-- include: common/request
-- include: common/queue
-- include: common/leave
-- include: latch/common/find
-- include: latch/common/touch
-- include: latch/common/wake
-- include: common/refuse_cancelled

local request = read_request(0)
local now = now_us()
local latch, vanished = find_latch(request.owner, now, ARGV[5])
if vanished then
  leave(request.grant, '0')
  return vanished
end

find_place(request, now)
if latch.count == 0 then
  touch(latch)
  if request.queued then
    remove_waiter(request.grant)
  end
  return 'granted 0 ' .. ARGV[2] .. ' 0' .. wake(latch) .. (request.missed and ' missed' or '')
end
local reply
if request.wait then
  -- This comes first: if memory is full, a new waiter is refused here, and nothing is written.
  local retry_after_ms = latch.lost_until_us and math.ceil((latch.lost_until_us - now) / 1000)
    or latch.ttl_ms
  reply = enqueue(request, string.format('%.0f', retry_after_ms), now)
  if latch.counted > 0 then
    reply = reply .. string.format(' told %.0f ', latch.counted) ..
      redis.call('ZRANGE', counted_key, '-1', '-1', 'WITHSCORES')[2]
  end
else
  reply = string.format('busy %.0f', latch.ttl_ms)
end
touch(latch)
return reply
