-- include: common/find_place
-- include: common/window
-- include: common/unheeding
-- include: common/eligible

-- choose(request, now): which waiter gets a lock that is free, as { request, winner (nil: the
-- request, if there is one), refused, asked, passed_over, unfinished, freed }. Reads only.
--
-- The first live waiter from the head gets it: one whose heartbeat is not overdue and whose channel
-- has a subscriber. A request that would wait is live, and comes at its ticket. If none is
-- live, the first that is merely overdue gets it: the server may have been paused. If none in the
-- window is live and the queue goes on behind it, all of the window are passed over, none gets
-- the lock, and the work is `unfinished`: the caller goes on with it at once.
--
-- Those that are not eligible() keep their places, and others come before them. If the request is
-- none, it is `refused` though the lock is free; so it is if others that are none fill the window.
--
-- If the waiter that is to get it waits for several names, none gets it: that waiter is `asked`
-- whether it can take all of them. `freed`: it may not know yet that this one is free.
local function choose(request, now)
  local stands, skips = false, false
  if request then
    if not request.placed then
      find_place(request, now)
    end
    stands = request.wait or request.queued
  end
  local refused = request and not eligible(request, now)
  local choice = {request = request, refused = refused, freed = not request or request.frees}
  local seen, dead, overdue = {}, {}, {}
  local function passing_over(late)
    for _, waiter in ipairs(late) do
      dead[#dead + 1] = waiter.hold
    end
    choice.passed_over = dead
    return choice
  end
  local function goes_to(waiter, late)
    choice[waiter.tail and 'asked' or 'winner'] = waiter
    return passing_over(late)
  end
  for waiter in each_waiter(KEYS[2], now, seen) do
    if request and not refused and
        (waiter.hold == request.hold or request.wait and waiter.ticket > request.ticket) then
      return passing_over(overdue)
    elseif waiter.dead or waiter.tail and is_unheeding(waiter, now) then
      dead[#dead + 1] = waiter.hold
    elseif not eligible(waiter, now) then
      skips = true
    elseif waiter.overdue then
      overdue[#overdue + 1] = waiter
    else
      return goes_to(waiter, overdue)
    end
  end
  if not seen.whole then
    choice.unfinished = not skips or dead[1] ~= nil or overdue[1] ~= nil
    choice.refused = true
  elseif (refused or not stands) and overdue[1] then
    return goes_to(overdue[1], {})
  end
  return passing_over(overdue)
end
