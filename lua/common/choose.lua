-- include: common/queue
-- include: common/window

-- choose(request, now): who gets a lock that is free, as { request, winner (nil: the request, if
-- there is one), passed_over, unfinished }. Reads only.
--
-- The first live waiter from the head gets it: one whose heartbeat is not overdue and whose channel
-- has a subscriber. Whoever asks and would wait is live, and comes at its ticket. If nobody is
-- live, the first who is merely overdue gets it: the server may have been paused. If nobody in the
-- window is live and the queue goes on behind it, all of the window are passed over, nobody gets
-- the lock, and the work is `unfinished`: the caller goes on with it at once.
local function choose(request, now)
  local stands = false
  if request then
    find_place(request, now)
    stands = request.wait or request.queued
  end
  local seen, dead, overdue = {}, {}, {}
  local function all_passed_over()
    for _, late in ipairs(overdue) do
      dead[#dead + 1] = late.hold
    end
    return dead
  end
  for waiter in each_waiter(KEYS[2], now, seen) do
    if request and
        (waiter.hold == request.hold or request.wait and waiter.ticket > request.ticket) then
      return {request = request, passed_over = all_passed_over()}
    elseif waiter.dead then
      dead[#dead + 1] = waiter.hold
    elseif waiter.overdue then
      overdue[#overdue + 1] = waiter
    else
      return {request = request, winner = waiter, passed_over = all_passed_over()}
    end
  end
  if not seen.whole then
    return {request = request, passed_over = all_passed_over(), unfinished = true}
  elseif not stands and overdue[1] then
    return {request = request, winner = overdue[1], passed_over = dead}
  end
  return {request = request, passed_over = all_passed_over()}
end
