-- include: common/queue
-- include: common/window
-- include: reentrant/common/find_grant
-- include: read_write/common/role
-- include: read_write/common/state

-- After a window of one side, a call reads at least this many readers.
local least_readers = 16

-- is_waiter(request): whether it stands in the queue, and so is live. Other requests come last.
local function is_waiter(request)
  return request.wait or request.queued
end

-- is_alone(grants, grant, now): whether that is the writer's only live grant.
local function is_alone(grants, grant, now)
  return grant and find_grant(grant, now) and (grants.count == 1 or
    redis.call('ZCOUNT', grants_key, string.format('(%.0f', now), '+inf') == 1)
end

-- read_waiting_writers(request, now): in the window of waiting writers, the `first` live one (the
-- request counts), the dead and the overdue before it, and whether this was the `whole` queue.
local function read_waiting_writers(request, now)
  local found, seen = {dead = {}, overdue = {}, whole = true}, {}
  local mine = request and not request.reader and is_waiter(request) and request
  for waiter in each_waiter(writers_key, now, seen) do
    if mine and (waiter.grant == mine.grant or waiter.ticket > mine.ticket) then
      found.first = mine
      return found
    elseif waiter.dead then
      found.dead[#found.dead + 1] = waiter
    elseif waiter.overdue then
      found.overdue[#found.overdue + 1] = waiter
    else
      found.first = waiter
      return found
    end
  end
  found.whole = seen.whole
  found.first = seen.whole and mine or nil
  return found
end

-- read_waiting_readers(request, most, last, now): the same for `most` waiting readers up to the
-- ticket `last`, without the request.
local function read_waiting_readers(request, most, last, now)
  local found = {live = {}, dead = {}, overdue = {}}
  local waiters = read_waiters(KEYS[2], 0, most - 1, now)
  found.whole = #waiters < most or redis.call('ZCARD', KEYS[2]) == most
  for _, waiter in ipairs(waiters) do
    if waiter.ticket > last then
      found.whole = true
      break
    elseif not request or waiter.grant ~= request.grant then
      local list = waiter.dead and found.dead or waiter.overdue and found.overdue or found.live
      list[#list + 1] = waiter
    end
  end
  return found
end

-- last_of_phase(request, grants): the ticket of the last reader that goes before writers since a
-- phase-fair write ended; nil if there is none.
local function last_of_phase(request, grants)
  if grants.policy ~= 'phase_fair' then
    return tonumber(grants.phase)
  end
  local last = tonumber(redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2])
  if request and request.reader and is_waiter(request) then
    return math.max(last or 0, request.ticket)
  end
  return last
end

-- choose(request, state, now): which clients get in, as { request, joins (whether the request gets
-- in), writer, readers (others that get in), dead_writers and dead_readers (they leave the queue),
-- first_writer (it keeps readers out), phase, unfinished }. Reads only.
--
-- While a client writes, a reader joins under its owner's only write grant, and so does a further
-- grant of the owner if no client reads: another thread of the client may ask for one while a
-- cancelled one is still live. When the last reader has left, the first live writer gets in; if no
-- live writer waits, all live readers do. After a phase-fair write, the readers that wait go first.
-- If no waiter is live, overdue ones count, since the server may have been paused.
--
-- Readers get in a window at a time. If more wait, the choice is `unfinished`, and readers up to
-- the ticket `phase` go before writers. A window without a live waiter leaves the queue, and no
-- other client gets in instead.
--
-- A writer of a user-named owner gets in together with that owner's first waiter.
local function choose(request, state, now)
  local choice = {request = request, readers = {}, dead_writers = {}, dead_readers = {}}
  local function pass_over(writers, readers)
    for _, waiter in ipairs(writers) do
      choice.dead_writers[#choice.dead_writers + 1] = waiter.grant
    end
    for _, waiter in ipairs(readers) do
      choice.dead_readers[#choice.dead_readers + 1] = waiter.grant
    end
  end
  local grants = state.grants
  if request then
    find_place(request, now)
  end
  local reads, free = request and request.reader, state.read_us <= now
  if grants.count > 0 then
    if reads then
      choice.joins = is_alone(grants, request.under, now)
    else
      choice.joins = request and free and request.writer == grants.owner
    end
    return choice
  end

  local seen = 0
  local phase = last_of_phase(request, grants)
  if phase then
    local readers = read_waiting_readers(request, window, phase, now)
    local mine = reads and is_waiter(request) and request.ticket <= phase
    pass_over({}, readers.dead)
    seen = #readers.dead + #readers.overdue
    if readers.live[1] or mine or not readers.whole or seen > least_readers then
      pass_over({}, readers.overdue)
      choice.readers = readers.live
      choice.joins = mine or reads and state.writers_waiting == 0
      choice.unfinished = not readers.whole or not readers.live[1] and not mine
      choice.phase = not readers.whole and phase or nil
      return choice
    end
  end
  if request and not reads and not free then
    return choice
  end

  local writers = read_waiting_writers(request, now)
  pass_over(writers.dead, {})
  choice.first_writer = writers.first
  if writers.first then
    if free then
      pass_over(writers.overdue, {})
      choice.writer = set_role(writers.first)
    end
  elseif not writers.whole then
    pass_over(writers.overdue, {})
    choice.unfinished = true
  else
    seen = seen + #writers.dead + #writers.overdue
    local most = math.max(window - seen, least_readers)
    local readers = read_waiting_readers(request, most, math.huge, now)
    local late = writers.overdue[1]
    pass_over({}, readers.dead)
    choice.unfinished = not readers.whole
    if readers.live[1] or reads and is_waiter(request) then
      pass_over(writers.overdue, readers.overdue)
      choice.readers, choice.joins = readers.live, reads
    elseif not readers.whole then
      pass_over({}, readers.overdue)
      choice.joins = reads and not (late and free)
    elseif late and free then
      choice.writer = set_role(late)
    elseif late then
      choice.joins = reads
    else
      choice.readers = readers.overdue
      choice.joins = reads or request and free and not readers.overdue[1]
    end
  end
  if choice.writer and choice.writer == request then
    choice.writer, choice.joins = nil, true
  elseif choice.writer and request and request.writer == choice.writer.writer then
    choice.joins = string.sub(request.writer, 1, 5) == 'user:'
  end
  return choice
end
