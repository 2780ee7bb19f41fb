-- Before acquire: queues the hold, or refuses it, as long as there is a quarantine.
-- include: common/quarantine_bids
-- include: common/quarantine
if quarantined_ms > 0 then
-- include: common/time
-- include: common/request
-- include: common/queue
  if redis.call('EXISTS', KEYS[5]) == 1 then
    return 'gone'
  end
  local request = read_request(0)
  if not request.wait then
    return 'busy ' .. quarantined_ms
  end
  local now = now_us()
  find_place(request, now)
  return enqueue(request, quarantined_ms, now)
end
