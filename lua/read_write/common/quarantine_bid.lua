-- Before acquire and acquire_read: as common/quarantine_bid.
-- include: common/quarantine_bids
-- include: common/quarantine
if quarantined_ms > 0 then
-- include: common/time
-- include: common/queue
-- include: read_write/common/read_bid
  if redis.call('EXISTS', KEYS[5]) == 1 then
    return 'gone'
  end
  local request = read_bid(0)
  if not request.wait then
    return 'busy ' .. quarantined_ms
  end
  local now = now_us()
  find_place(request, now)
  return enqueue(request, quarantined_ms, now)
end
