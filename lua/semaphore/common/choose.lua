-- include: common/queue
-- include: common/window
-- include: semaphore/common/state

-- choose(request, state, now): which waiters get in, as { request, admitted, among them the request
-- if it `joins`, passed_over, unfinished }. Reads only.
--
-- From the head, each live waiter gets its permits as long as they are free; the first for whom
-- there are too few keeps all behind it waiting. A waiter is live if it has a record, a heartbeat
-- that is not overdue and a subscriber, and wants no more permits than there are in all. The
-- overdue are passed over if a live one behind them gets in; what is left when no live one wants
-- more is theirs, since the server may have been paused. A request that would wait is live, and
-- comes at its ticket; one that would not wait comes last.
--
-- If the queue goes on behind the window and permits are left, the work is `unfinished`: those of
-- the window that do not get in are passed over, and none behind it gets in before the caller has
-- gone on. So it is while permits of expired grants cannot be counted yet.
local function choose(request, state, now)
  local choice = {request = request, admitted = {}, passed_over = {}}
  if request then
    find_place(request, now)
  end
  choice.unfinished = state.more and (request or redis.call('EXISTS', KEYS[2]) == 1)
  local stands = request and (request.wait or request.queued)
  local free, late = state.capacity - state.used, {}

  -- Answers whether any permits are left for others.
  local function admit(waiter)
    if waiter.block > free then
      return false
    end
    free = free - waiter.block
    choice.joins = choice.joins or waiter == request
    choice.admitted[#choice.admitted + 1] = waiter
    return free > 0
  end
  local function pass_over_late()
    for _, waiter in ipairs(late) do
      choice.passed_over[#choice.passed_over + 1] = waiter.hold
    end
    late = {}
  end
  local function admit_live(waiter)
    if waiter.block <= free then
      pass_over_late()
    end
    return admit(waiter)
  end

  if free <= 0 then
    return choice
  end
  local seen = {}
  for waiter in each_waiter(KEYS[2], now, seen) do
    local mine = request and waiter.hold == request.hold
    if stands and (mine or waiter.ticket > request.ticket) then
      stands = false
      if not admit_live(request) then
        return choice
      end
    end
    if not mine then
      if waiter.dead or waiter.block > state.capacity then
        choice.passed_over[#choice.passed_over + 1] = waiter.hold
      elseif waiter.overdue then
        late[#late + 1] = waiter
      elseif not admit_live(waiter) then
        return choice
      end
    end
  end
  if not seen.whole then
    pass_over_late()
    choice.unfinished = true
    return choice
  end
  if stands and not admit_live(request) then
    return choice
  end
  for _, waiter in ipairs(late) do
    if not admit(waiter) then
      return choice
    end
  end
  if request and not choice.joins then
    admit(request)
  end
  return choice
end
