-- include: common/queue
-- include: read_write/common/bid

-- look(hold): a waiter whose channel has a subscriber; nil where it is dead.
local function look(hold)
  local waiter = read_waiter(hold)
  if waiter and redis.call('PUBSUB', 'NUMSUB', waiter.channel)[2] > 0 then
    return identify(waiter)
  end
end

-- stands(request): whether it is one of the waiters, and so live. Others come after all of them.
local function stands(request)
  return request and (request.wait or request.queued)
end

-- first_writer(request, now): the first live writer that waits, who may be the request, and those
-- before it that are overdue and dead. Each live one has a marker, which
-- spares the way through a queue of readers.
local function first_writer(request, now)
  local writers = {}
  for i, hold in ipairs(redis.call('ZRANGE', markers_key, 0, -1)) do
    writers[i] = {hold = hold, ticket = tonumber(redis.call('ZSCORE', KEYS[2], hold)) or 0}
  end
  if stands(request) and not request.reader then
    -- Where it has a marker it is here twice, and its first place counts.
    writers[#writers + 1] = request
  end
  table.sort(writers, function(a, b)
    return a.ticket < b.ticket or a.ticket == b.ticket and a.hold < b.hold
  end)
  local overdue, dead = {}, {}
  for _, writer in ipairs(writers) do
    if request and writer.hold == request.hold then
      return request, overdue, dead
    end
    local waiter = look(writer.hold)
    if not waiter then
      dead[#dead + 1] = writer
    elseif waiter.overdue_us < now then
      overdue[#overdue + 1] = waiter
    else
      return waiter, overdue, dead
    end
  end
  return nil, overdue, dead
end

-- look_through(request, now): the whole queue but the request: its live readers, its overdue
-- readers and writers, and its dead.
local function look_through(request, now)
  local crowd = {readers = {}, overdue_readers = {}, overdue_writers = {}, dead = {}}
  for _, hold in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    local waiter = not (request and hold == request.hold) and look(hold)
    local list
    if waiter == nil then
      list, waiter = crowd.dead, {hold = hold}
    elseif waiter and waiter.overdue_us < now then
      list = waiter.reader and crowd.overdue_readers or crowd.overdue_writers
    elseif waiter and waiter.reader then
      list = crowd.readers
    end
    if list then
      list[#list + 1] = waiter
    end
  end
  return crowd
end

-- choose(request, state, now): who gets in, as { request, joins (whether the request does), writer,
-- readers (others who do), passed_over }. Reads only.
--
-- While somebody writes, a reader joins under his only hold, and a further hold of his where nobody
-- reads: another thread of the client may ask for it, while one that was given up lives on. Then it
-- is the first live writer's turn, when the last reader has left; where none waits, that of all
-- live readers. After a phase-fair write the readers that wait come first. Where nobody is live,
-- those who are merely overdue count: the server may have been paused.
local function choose(request, state, now)
  local choice = {request = request, readers = {}, passed_over = {}}
  local function pass_over(list)
    for _, waiter in ipairs(list) do
      choice.passed_over[#choice.passed_over + 1] = waiter.hold
    end
  end
  local holds = state.holds
  if request then
    find_place(request, now)
  end
  local free = state.read_us <= now
  if holds.count > 0 then
    if request and request.reader then
      choice.joins = holds.count == 1 and holds.live[request.under] ~= nil
    else
      choice.joins = request and free and request.writer == holds.owner
    end
    return choice
  end

  local writer, overdue, dead = first_writer(request, now)
  local crowd
  if not writer or holds.policy == 'phase_fair' then
    crowd = look_through(request, now)
    pass_over(dead)
    pass_over(crowd.dead)
  end
  local reading = request and request.reader
  if crowd and (crowd.readers[1] or reading and stands(request)) then
    choice.readers = crowd.readers
    choice.joins = reading and (stands(request) or not writer)
    pass_over(crowd.overdue_readers)
    if not writer then
      pass_over(crowd.overdue_writers)
    end
  elseif writer then
    if free then
      choice.writer = writer
      pass_over(dead)
      pass_over(overdue)
    end
  elseif crowd.overdue_writers[1] then
    if free then
      choice.writer = crowd.overdue_writers[1]
    else
      choice.joins = reading and state.marked_us <= now
    end
  else
    choice.readers = crowd.overdue_readers
    choice.joins = reading or request and free and not choice.readers[1]
  end
  if choice.writer and choice.writer == request then
    choice.writer, choice.joins = nil, true
  end
  return choice
end
