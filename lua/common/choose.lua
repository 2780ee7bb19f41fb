-- include: common/find_place
-- include: common/window
-- include: common/ignored_invitation
-- include: common/eligible

-- choose(request, now): decides which waiter gets a free lock. Returns { request, winner (nil: the
-- request, if there is one), refused, invited, passed_over, unfinished, freed }. Reads only.
--
-- The first live waiter gets the lock. A request that may wait is live, and its ticket is its
-- place. If no waiter is live, the first overdue one gets the lock, since the server may have been
-- paused. If the window has no live waiter and the queue is longer than the window, the whole
-- window is passed over, no client gets the lock, and the choice is `unfinished`: the caller
-- repeats its call at once.
--
-- Waiters that are not eligible() keep their places, and others overtake them. A request that is
-- not eligible is `refused` even if the lock is free, as is one that finds a window full of such
-- waiters.
--
-- A waiter for several names is never the winner. It is `invited` to take all of them. `freed` is
-- true if that waiter may not know yet that this name is free.
local function choose(request, now)
  local waits, skips = false, false
  if request then
    if not request.placed then
      find_place(request, now)
    end
    waits = request.wait or request.queued
  end
  local refused = request and not eligible(request, now)
  local choice = {request = request, refused = refused, freed = not request or request.frees}
  local seen, dead, overdue = {}, {}, {}
  local function passing_over(late)
    for _, waiter in ipairs(late) do
      dead[#dead + 1] = waiter.grant
    end
    choice.passed_over = dead
    return choice
  end
  local function goes_to(waiter, late)
    choice[waiter.tail and 'invited' or 'winner'] = waiter
    return passing_over(late)
  end
  for waiter in each_waiter(KEYS[2], now, seen) do
    if request and not refused and
        (waiter.grant == request.grant or request.wait and waiter.ticket > request.ticket) then
      return passing_over(overdue)
    elseif waiter.dead or waiter.tail and ignored_invitation(waiter, now) then
      dead[#dead + 1] = waiter.grant
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
  elseif (refused or not waits) and overdue[1] then
    return goes_to(overdue[1], {})
  end
  return passing_over(overdue)
end
