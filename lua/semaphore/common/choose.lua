-- include: common/queue
-- include: common/window
-- include: semaphore/common/state

-- choose(request, state, now): decides which waiters get permits. Returns { request, admitted (with
-- the request if it `joins`), passed_over, unfinished }. Reads only.
--
-- From the head of the queue on, each live waiter gets its permits if they are free. The first
-- waiter that needs more makes all behind it wait. A waiter is live if it has a record, a
-- subscriber and a heartbeat that is not overdue, and wants no more than the capacity. Overdue
-- waiters are passed over if a live one behind them gets in. They get what is left when no live
-- waiter wants more, since the server may have been paused. A request that may wait is live, and
-- its ticket is its place. Any other comes last.
--
-- If permits are left after a window and the queue is longer, the choice is `unfinished`: waiters
-- of the window that get no permits are passed over, and no later waiter gets any before the caller
-- repeats its call. The same happens while there are more expired grants than a call can count.
local function choose(request, state, now)
  local choice = {request = request, admitted = {}, passed_over = {}}
  if request then
    find_place(request, now)
  end
  choice.unfinished = state.more and (request or redis.call('EXISTS', KEYS[2]) == 1)
  local waits = request and (request.wait or request.queued)
  local free, late = state.capacity - state.used, {}

  -- Returns true if any permits are left for others.
  local function admit(waiter)
    if waiter.amount > free then
      return false
    end
    free = free - waiter.amount
    choice.joins = choice.joins or waiter == request
    choice.admitted[#choice.admitted + 1] = waiter
    return free > 0
  end
  local function pass_over_late()
    for _, waiter in ipairs(late) do
      choice.passed_over[#choice.passed_over + 1] = waiter.grant
    end
    late = {}
  end
  local function admit_live(waiter)
    if waiter.amount <= free then
      pass_over_late()
    end
    return admit(waiter)
  end

  if free <= 0 then
    return choice
  end
  local seen = {}
  for waiter in each_waiter(KEYS[2], now, seen) do
    local mine = request and waiter.grant == request.grant
    if waits and (mine or waiter.ticket > request.ticket) then
      waits = false
      if not admit_live(request) then
        return choice
      end
    end
    if not mine then
      if waiter.dead or waiter.amount > state.capacity then
        choice.passed_over[#choice.passed_over + 1] = waiter.grant
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
  if waits and not admit_live(request) then
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
