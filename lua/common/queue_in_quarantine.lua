-- include: common/time
-- include: common/queue

-- queue_in_quarantine(request, quarantined_ms): queues or refuses a request during a quarantine.
-- Returns acquire's reply.
local function queue_in_quarantine(request, quarantined_ms)
  if redis.call('EXISTS', KEYS[5]) == 1 then
    return 'gone'
  elseif not request.wait then
    return 'busy ' .. quarantined_ms
  end
  local now = now_us()
  find_place(request, now)
  return enqueue(request, quarantined_ms, now)
end
