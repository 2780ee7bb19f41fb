-- include: common/time
-- include: common/queue

-- sit_out(request, quarantined_ms): queues what is asked for during a quarantine, or refuses it.
-- Answers acquire's reply.
local function sit_out(request, quarantined_ms)
  if redis.call('EXISTS', KEYS[5]) == 1 then
    return 'gone'
  elseif not request.wait then
    return 'busy ' .. quarantined_ms
  end
  local now = now_us()
  find_place(request, now)
  return enqueue(request, quarantined_ms, now)
end
