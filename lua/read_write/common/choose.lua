-- include: common/queue
-- include: common/window
-- include: reentrant/common/find_hold
-- include: read_write/common/bid
-- include: read_write/common/state

-- What else a call looks at once it has seen a window: so many at least, and it stops at more.
local least = 16

-- stands(request): whether it is one of the waiters, and so live. Others come after all of them.
local function stands(request)
  return request.wait or request.queued
end

-- is_alone(holds, hold, now): whether the writer has that grant, and no other.
local function is_alone(holds, hold, now)
  return hold and find_hold(hold, now) and (holds.count == 1 or
    redis.call('ZCOUNT', holds_key, string.format('(%.0f', now), '+inf') == 1)
end

-- look_at_writers(request, now): of a window of the writers that wait, the `first` that lives,
-- which may be the request, and the dead and the overdue before it; and whether that was the
-- `whole` queue.
local function look_at_writers(request, now)
  local line, seen = {dead = {}, overdue = {}, whole = true}, {}
  local mine = request and not request.reader and stands(request) and request
  for waiter in each_waiter(writers_key, now, seen) do
    if mine and (waiter.hold == mine.hold or waiter.ticket > mine.ticket) then
      line.first = mine
      return line
    elseif waiter.dead then
      line.dead[#line.dead + 1] = waiter
    elseif waiter.overdue then
      line.overdue[#line.overdue + 1] = waiter
    else
      line.first = waiter
      return line
    end
  end
  line.whole = seen.whole
  line.first = seen.whole and mine or nil
  return line
end

-- look_at_readers(request, most, last, now): likewise of the readers that wait, but the request:
-- so many of them, to the ticket `last`.
local function look_at_readers(request, most, last, now)
  local crowd = {live = {}, dead = {}, overdue = {}}
  local waiters = read_waiters(KEYS[2], 0, most - 1, now)
  crowd.whole = #waiters < most or redis.call('ZCARD', KEYS[2]) == most
  for _, waiter in ipairs(waiters) do
    if waiter.ticket > last then
      crowd.whole = true
      break
    elseif not request or waiter.hold ~= request.hold then
      local list = waiter.dead and crowd.dead or waiter.overdue and crowd.overdue or crowd.live
      list[#list + 1] = waiter
    end
  end
  return crowd
end

-- last_of_turn(request, holds): the ticket of the last reader whose turn it is since a phase-fair
-- write ended; nil if there is none.
local function last_of_turn(request, holds)
  if holds.policy ~= 'phase_fair' then
    return tonumber(holds.phase)
  end
  local last = tonumber(redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2])
  if request and request.reader and stands(request) then
    return math.max(last or 0, request.ticket)
  end
  return last
end

-- choose(request, state, now): which clients get in, as { request, joins (whether the request
-- does), writer, readers (others that do), dead_writers and dead_readers (that leave the queue),
-- first_writer (which keeps readers out), phase, unfinished }. Reads only.
--
-- While a client writes, a reader joins under its only grant, and a further grant of the writer if
-- no client reads: another thread of the client may ask for it, while one that was given up lives
-- on. Then it is the first live writer's turn, when the last reader has left; if none waits, that
-- of all live readers. After a phase-fair write the readers that wait come first. If none is live,
-- those that are merely overdue count: the server may have been paused.
--
-- Readers are let in by windows. If there are more than that, the work is `unfinished`, and the
-- `phase` is the last ticket whose turn it stays. A window in which none lives leaves, and no other
-- client gets in instead.
--
-- A writer whose owner its user named gets in together with that owner's first waiter.
local function choose(request, state, now)
  local choice = {request = request, readers = {}, dead_writers = {}, dead_readers = {}}
  local function pass_over(writers, readers)
    for _, waiter in ipairs(writers) do
      choice.dead_writers[#choice.dead_writers + 1] = waiter.hold
    end
    for _, waiter in ipairs(readers) do
      choice.dead_readers[#choice.dead_readers + 1] = waiter.hold
    end
  end
  local holds = state.holds
  if request then
    find_place(request, now)
  end
  local reads, free = request and request.reader, state.read_us <= now
  if holds.count > 0 then
    if reads then
      choice.joins = is_alone(holds, request.under, now)
    else
      choice.joins = request and free and request.writer == holds.owner
    end
    return choice
  end

  local seen = 0
  local phase = last_of_turn(request, holds)
  if phase then
    local crowd = look_at_readers(request, window, phase, now)
    local mine = reads and stands(request) and request.ticket <= phase
    pass_over({}, crowd.dead)
    seen = #crowd.dead + #crowd.overdue
    if crowd.live[1] or mine or not crowd.whole or seen > least then
      pass_over({}, crowd.overdue)
      choice.readers = crowd.live
      choice.joins = mine or reads and state.writers_waiting == 0
      choice.unfinished = not crowd.whole or not crowd.live[1] and not mine
      choice.phase = not crowd.whole and phase or nil
      return choice
    end
  end
  if request and not reads and not free then
    return choice
  end

  local line = look_at_writers(request, now)
  pass_over(line.dead, {})
  choice.first_writer = line.first
  if line.first then
    if free then
      pass_over(line.overdue, {})
      choice.writer = identify(line.first)
    end
  elseif not line.whole then
    pass_over(line.overdue, {})
    choice.unfinished = true
  else
    seen = seen + #line.dead + #line.overdue
    local crowd = look_at_readers(request, math.max(window - seen, least), math.huge, now)
    local late = line.overdue[1]
    pass_over({}, crowd.dead)
    choice.unfinished = not crowd.whole
    if crowd.live[1] or reads and stands(request) then
      pass_over(line.overdue, crowd.overdue)
      choice.readers, choice.joins = crowd.live, reads
    elseif not crowd.whole then
      pass_over({}, crowd.overdue)
      choice.joins = reads and not (late and free)
    elseif late and free then
      choice.writer = identify(late)
    elseif late then
      choice.joins = reads
    else
      choice.readers = crowd.overdue
      choice.joins = reads or request and free and not crowd.overdue[1]
    end
  end
  if choice.writer and choice.writer == request then
    choice.writer, choice.joins = nil, true
  elseif choice.writer and request and request.writer == choice.writer.writer then
    choice.joins = string.sub(request.writer, 1, 5) == 'user:'
  end
  return choice
end
