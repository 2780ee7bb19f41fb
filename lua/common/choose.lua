-- include: common/queue

-- choose(request, now): who gets a lock that is free, as { request, winner (nil: the request, if
-- there is one), passed_over }. Reads only.
--
-- The first live waiter from the head gets it: one whose heartbeat is not overdue and whose channel
-- has a subscriber (PUBLISH would count pattern monitors too). Who asks and would wait is live, and
-- comes at its ticket. Where nobody is live, the first who is merely overdue gets it: the server
-- may have been paused.
local function choose(request, now)
  if request then
    find_place(request, now)
  end
  local dead, overdue = {}, {}
  local place = 0
  while true do
    local entry = redis.call('ZRANGE', KEYS[2], place, place, 'WITHSCORES')
    local hold = entry[1]
    if not hold or request and
        (hold == request.hold or request.wait and tonumber(entry[2]) > request.ticket) then
      break
    end
    local waiter = read_waiter(hold)
    if not waiter or redis.call('PUBSUB', 'NUMSUB', waiter.channel)[2] == 0 then
      dead[#dead + 1] = hold
    elseif waiter.overdue_us < now then
      overdue[#overdue + 1] = waiter
    else
      for _, late in ipairs(overdue) do
        dead[#dead + 1] = late.hold
      end
      return {request = request, winner = waiter, passed_over = dead}
    end
    place = place + 1
  end
  if not (request and (request.wait or request.queued)) and overdue[1] then
    return {request = request, winner = overdue[1], passed_over = dead}
  end
  for _, late in ipairs(overdue) do
    dead[#dead + 1] = late.hold
  end
  return {request = request, passed_over = dead}
end
