-- include: common/hold_id
-- include: common/queue
-- include: semaphore/common/state
-- include: semaphore/common/touch

-- choose(request, state, now): who gets in, as { request, admitted, among them the request if it
-- `joins`, passed_over }. Reads only.
--
-- From the head, each live waiter gets its permits as long as they are free; the first for whom
-- there are too few keeps all behind it waiting. Live is who has a record, a heartbeat that is not
-- overdue and a subscriber (PUBLISH would count pattern monitors too). The overdue are passed over
-- where a live one behind them gets in; what is left when no live one wants more is theirs, since
-- the server may have been paused. Who asks and would wait is live, and comes at its ticket; who
-- would not wait comes last.
local function choose(request, state, now)
  local choice = {request = request, admitted = {}, passed_over = {}}
  if request then
    find_place(request, now)
  end
  local stands = request and (request.wait or request.queued)
  local free, late = state.capacity - state.used, {}
  local function admit(waiter)
    if waiter.block > free then
      return false
    end
    free = free - waiter.block
    choice.joins = choice.joins or waiter == request
    choice.admitted[#choice.admitted + 1] = waiter
    return true
  end

  -- The queue is read by pages: of one at first, since mostly one gets in.
  local place, page, page_begin, size = 0, {}, 0, 1
  while free > 0 do
    if 2 * (place - page_begin) >= #page then
      page = redis.call('ZRANGE', KEYS[2], place, place + size - 1, 'WITHSCORES')
      page_begin, size = place, math.min(2 * size, 256)
    end
    local at = 2 * (place - page_begin) + 1
    local hold, waiter = page[at], nil
    if stands and
        (not hold or hold == request.hold or tonumber(page[at + 1]) > request.ticket) then
      stands, waiter = false, request
    elseif not hold then
      break
    else
      place = place + 1
      if not request or hold ~= request.hold then
        waiter = read_waiter(hold)
        if not waiter or waiter.block > state.capacity or
            redis.call('PUBSUB', 'NUMSUB', waiter.channel)[2] == 0 then
          choice.passed_over[#choice.passed_over + 1] = hold
          waiter = nil
        elseif waiter.overdue_us < now then
          late[#late + 1] = waiter
          waiter = nil
        end
      end
    end
    if waiter then
      if not admit(waiter) then
        return choice
      end
      for _, overtaken in ipairs(late) do
        choice.passed_over[#choice.passed_over + 1] = overtaken.hold
      end
      late = {}
    end
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

-- forget_weight(hold): it has more than one permit no longer.
local function forget_weight(hold)
  local weight = redis.call('HGET', KEYS[1], hold)
  if weight then
    redis.call('HDEL', KEYS[1], hold)
    if redis.call('HINCRBY', KEYS[1], 'extra', 1 - weight) <= 0 then
      redis.call('HDEL', KEYS[1], 'extra')
    end
  end
end

-- drop_weights(): nor has any.
local function drop_weights()
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if field == 'extra' or client_of(field) then
      redis.call('HDEL', KEYS[1], field)
    end
  end
end

-- purge(state, now): removes holds that have expired.
local function purge(state, now)
  for _, hold in ipairs(state.lapsed) do
    forget_weight(hold)
  end
  if state.expired > 0 then
    redis.call('ZREMRANGEBYSCORE', permits_key, '-inf', now)
  end
  if state.void then
    drop_weights()
  end
end

-- in_parts(command, key, arguments): a call takes 8,000 of them at most.
local function in_parts(command, key, arguments)
  for i = 1, #arguments, 1000 do
    redis.call(command, key, unpack(arguments, i, math.min(i + 999, #arguments)))
  end
end

-- settle(choice, state, now): carries that out for everybody, and answers the request, if there is
-- one. The grants are published when all else is written.
local function settle(choice, state, now)
  local request, leaving, entering, weights = choice.request, choice.passed_over, {}, {}
  local beyond_one, longest_ms = 0, 0
  for _, waiter in ipairs(choice.admitted) do
    if waiter ~= request or request.queued then
      leaving[#leaving + 1] = waiter.hold
    end
    entering[#entering + 1] = now + 1000 * waiter.lease_ms
    entering[#entering + 1] = waiter.hold
    if waiter.block > 1 then
      weights[#weights + 1] = waiter.hold
      weights[#weights + 1] = waiter.block
      beyond_one = beyond_one + waiter.block - 1
    end
    longest_ms = math.max(longest_ms, waiter.lease_ms)
  end

  purge(state, now)
  in_parts('ZREM', KEYS[2], leaving)
  in_parts('HDEL', KEYS[3], leaving)
  in_parts('ZADD', permits_key, entering)
  if beyond_one > 0 then
    in_parts('HSET', KEYS[1], weights)
    redis.call('HINCRBY', KEYS[1], 'extra', beyond_one)
  end
  if longest_ms > 0 then
    lengthen_ttl(permits_key, longest_ms)
    touch(state, now + 1000 * longest_ms)
  end

  local reply
  if choice.joins then
    reply = 'granted 0 ' .. request.lease_ms .. ' 0'
  elseif request then
    -- It is worth another look when the earliest hold could end.
    local first = redis.call('ZRANGE', permits_key, 0, 0, 'WITHSCORES')[2]
    local retry_after_ms = first and math.ceil((first - now) / 1000) or request.heartbeat_ms
    reply = request.wait and enqueue(request, retry_after_ms, now) or 'busy ' .. retry_after_ms
  end
  for _, waiter in ipairs(choice.admitted) do
    if waiter ~= request then
      redis.call('PUBLISH', waiter.channel, 'grant ' .. waiter.hold .. ' ' .. waiter.attempt ..
        ' 0 ' .. waiter.lease_ms .. ' 0 ' .. KEYS[1])
    end
  end
  return reply
end
