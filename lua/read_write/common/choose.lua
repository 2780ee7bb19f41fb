-- include: common/queue
-- include: common/window
-- include: reentrant/common/find_grant
-- include: read_write/common/role
-- include: read_write/common/state

-- A call that has read a window of one side reads at least this many readers.
local least_readers = 16

-- is_waiter(request): returns true if the request has, or will have, a place in the queue. It then
-- counts as a live waiter. Any other request comes last.
local function is_waiter(request)
  return request.wait or request.queued
end

-- is_alone(grants, grant, now): returns true if that grant is the writer's only live one.
local function is_alone(grants, grant, now)
  return grant and find_grant(grant, now) and (grants.count == 1 or
    redis.call('ZCOUNT', grants_key, string.format('(%.0f', now), '+inf') == 1)
end

-- read_waiting_writers(request, now): reads the wait markers of a window. Returns the `first` live
-- writer, which may be the request, the `dead` and the `overdue` ones before it, and `whole` if
-- this was the whole queue.
local function read_waiting_writers(request, now)
  local found, seen = {dead = {}, overdue = {}, whole = true}, {}
  local mine = request and not request.reader and is_waiter(request) and request
  for waiter in each_waiter(waiting_writers_key, now, seen) do
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

-- read_waiting_readers(request, most, last, now): reads `most` waiting readers up to the ticket
-- `last`, without the request. Returns the `live`, the `dead` and the `overdue` ones, and `whole`
-- if these were the whole queue.
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

-- last_of_phase(request, grants): returns the ticket of the last reader of the phase, nil if there
-- is no phase. A phase begins when a phase-fair write ends, with the readers that wait then, and
-- lasts until all of them are in. KEYS[1] stores the ticket meanwhile: see keep_phase().
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

-- add_grants(list, waiters): adds the grants of the waiters to the list.
local function add_grants(list, waiters)
  for _, waiter in ipairs(waiters) do
    list[#list + 1] = waiter.grant
  end
end

-- choose_in_phase(choice, state, now): chooses a window of the readers of a phase. Returns true if
-- that completes the choice, and otherwise how many waiters this call has read.
local function choose_in_phase(choice, state, now)
  local request = choice.request
  local phase = last_of_phase(request, state.grants)
  if not phase then
    return false, 0
  end
  local readers = read_waiting_readers(request, window, phase, now)
  local reads = request and request.reader
  local belongs = reads and is_waiter(request) and request.ticket <= phase
  local seen = #readers.dead + #readers.overdue
  add_grants(choice.dead_readers, readers.dead)
  if not readers.live[1] and not belongs and readers.whole and seen <= least_readers then
    return false, seen
  end
  add_grants(choice.dead_readers, readers.overdue)
  choice.readers = readers.live
  choice.joins = belongs or reads and state.writers_waiting == 0
  choice.unfinished = not readers.whole or not readers.live[1] and not belongs
  choice.phase = not readers.whole and phase or nil
  return true
end

-- choose_without_live_writer(choice, late_writers, free, most, now): decides if no live writer
-- waits. `late_writers` are overdue. `free` is true if no client reads. The call may read `most`
-- readers.
local function choose_without_live_writer(choice, late_writers, free, most, now)
  local request, late_writer = choice.request, late_writers[1]
  local reads = request and request.reader
  local readers = read_waiting_readers(request, most, math.huge, now)
  add_grants(choice.dead_readers, readers.dead)
  choice.unfinished = not readers.whole
  if readers.live[1] or reads and is_waiter(request) then
    add_grants(choice.dead_writers, late_writers)
    add_grants(choice.dead_readers, readers.overdue)
    choice.readers, choice.joins = readers.live, reads
  elseif not readers.whole then  -- those behind this window may be live
    add_grants(choice.dead_readers, readers.overdue)
    choice.joins = reads and not (late_writer and free)
  elseif late_writer and free then
    choice.writer = set_role(late_writer)
  elseif late_writer then
    choice.joins = reads
  else
    choice.readers = readers.overdue
    choice.joins = reads or request and free and not readers.overdue[1]
  end
end

-- choose(request, state, now): decides which clients get in. Returns { request, joins (the request
-- gets in), writer, readers (others that get in), dead_writers and dead_readers (they leave the
-- queue), first_writer (it keeps readers out), phase, unfinished }. Reads only.
--
-- The first row that applies decides. A request that may wait counts as a live waiter.
--
-- | the lock is  | who waits                  | who gets in                                       |
-- |--------------|----------------------------|---------------------------------------------------|
-- | written      | any                        | a request of its owner, if no client reads (and   |
-- |              |                            | none waits, unless the user named the owner); a   |
-- |              |                            | request to read under its only grant              |
-- | in a phase   | a live reader of the phase | the readers of the phase; another request to read |
-- |              |                            | if no writer waits                                |
-- | read         | a live writer              | none                                              |
-- | free         | a live writer              | the first of them                                 |
-- | read or free | a live reader              | all live readers; any request to read             |
-- | read         | an overdue writer          | a request to read                                 |
-- | free         | an overdue writer          | the first of them                                 |
-- | read or free | an overdue reader          | all overdue readers; a request to read            |
-- | read         | none                       | a request to read                                 |
-- | free         | none                       | any request                                       |
--
-- - A further grant of the owner waits for reads, because another thread of the client may ask for
--   it while a cancelled grant is still live.
-- - Overdue waiters count if no waiter is live, since the server may have been paused.
-- - Together with a writer of a user-named owner, a request of the same owner gets in.
-- - Readers get in one window at a time. If more wait, the choice is `unfinished`, and a phase
--   keeps its `phase`. A window without a live waiter leaves the queue, and only a try to read gets
--   in then.
local function choose(request, state, now)
  local choice = {request = request, readers = {}, dead_writers = {}, dead_readers = {}}
  if request then
    find_place(request, now)
  end
  local reads, free = request and request.reader, state.read_us <= now
  local grants = state.grants
  if grants.count > 0 then
    if reads then
      choice.joins = is_alone(grants, request.under, now)
    else
      choice.joins = request and free and request.writer == grants.owner and
        (string.sub(request.writer, 1, 5) == 'user:' or
          redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', waiting_writers_key) ==
          (request.queued and 1 or 0))
    end
    return choice
  end

  local decided, seen = choose_in_phase(choice, state, now)
  if decided or request and not reads and not free then
    return choice
  end

  local writers = read_waiting_writers(request, now)
  add_grants(choice.dead_writers, writers.dead)
  choice.first_writer = writers.first
  if writers.first and free then
    add_grants(choice.dead_writers, writers.overdue)
    choice.writer = set_role(writers.first)
  elseif not writers.first and not writers.whole then
    add_grants(choice.dead_writers, writers.overdue)
    choice.unfinished = true
  elseif not writers.first then
    seen = seen + #writers.dead + #writers.overdue
    local most = math.max(window - seen, least_readers)
    choose_without_live_writer(choice, writers.overdue, free, most, now)
  end

  if choice.writer and choice.writer == request then
    choice.writer, choice.joins = nil, true
  elseif choice.writer and request and request.writer == choice.writer.writer then
    choice.joins = string.sub(request.writer, 1, 5) == 'user:'
  end
  return choice
end
