-- include: common/fence
-- include: common/grant_id
-- include: common/extend_lease
-- include: simple/common/take
-- include: multi/common/choose_at

-- reserve_everywhere(all, block, now): reserves the same `block` tokens for all names, larger than
-- any that one of them has issued. Returns the first.
local function reserve_everywhere(all, block, now)
  local largest = 0
  for _, name in ipairs(all) do
    largest = math.max(largest, name.fence)
  end
  local first = math.max(now, largest + 1)
  for i, name in ipairs(all) do
    select_name(i)
    -- `first` serves as the clock here: every fence is behind it.
    reserve_tokens(name.fence, block, first)
  end
  return string.format('%.0f', first)
end

-- find_ticket(request, all, now): sets one ticket for all queues: the older of the one that the
-- request has and the one that its client knows; else a new one behind all waiters (it
-- `comes_last`). Sets its latest attempt, too. Both are the same in every queue.
local function find_ticket(request, all, now)
  local command = redis.call
  request.missed = false
  for i, name in ipairs(all) do
    if name.rank and not request.placed_at then
      request.placed_at = tonumber(command('ZSCORE', names[i][2], request.grant))
      request.attempt = math.max(request.attempt,
        tonumber(string.match(name.record, '^%d+ %d+ %d+ (%d+) ')) or 0)
    end
    request.missed = request.missed or not name.rank and request.attempt > 1
  end
  local ticket, known = request.placed_at, request.ticket
  if known > 0 then
    ticket = math.min(known, ticket or known)
  end
  local text = string.format('%.0f', ticket or now)
  request.comes_last = not ticket
  if not ticket then
    ticket = now
    for i, name in ipairs(request.wait and all or {}) do
      local queue = names[i][2]
      if name.waiting > 0 and command('ZCOUNT', queue, text, '+inf') > 0 then
        ticket = tonumber(command('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]) + 1
        text = string.format('%.0f', ticket)
      end
    end
  end
  request.ticket, request.ticket_text, request.placed = ticket, text, true
end

-- count_waiting(): at how many of the names other clients wait.
local function count_waiting()
  return redis.call('EXISTS', unpack(all_keys(2)))
end

-- answer_again(request, all, now): acquire's reply to a repeat. The grant keeps its token.
local function answer_again(request, all, now)
  local lease_ms, fence = math.huge, 0
  for i, name in ipairs(all) do
    select_name(i)
    lease_ms, fence = math.min(lease_ms, extend_lease(request)), math.max(fence, name.fence)
    if name.record then
      remove_waiter(request.grant)
    end
  end
  local token = fence >= request.block and string.format('%.0f', fence - request.block + 1)
    or reserve_everywhere(all, request.block, now)
  return string.format('granted %s %.0f %d', token, lease_ms, count_waiting())
end

-- choose_all(request, all, now): sets for each free name whether the request `is_next`, or else the
-- `choice`. Returns whether all names are free and the request is next at each.
local function choose_all(request, all, now)
  local grants = true
  for i, name in ipairs(all) do
    name.is_next = name.free and (name.rank == 0 or name.waiting == 0)
    if name.free and not name.is_next then
      request.queued = name.rank ~= nil
      local choice = choose_at(i, name, request, now)
      name.choice = choice
      name.is_next = not (choice.winner or choice.invited or choice.unfinished)
    end
    grants = grants and (name.mine or name.is_next)
  end
  return grants
end

-- grant_all(request, all, now): grants all names. Returns acquire's reply.
local function grant_all(request, all, now)
  for i, name in ipairs(all) do
    select_name(i)
    if name.choice then
      remove_waiters(name.choice.passed_over)
    end
    if name.record then
      remove_waiter(request.grant)
    end
  end
  local token = reserve_everywhere(all, request.block, now)
  local lease_ms = string.format('%.0f', request.lease_ms)
  for i = 1, #names do
    redis.call('PSETEX', names[i][1], lease_ms, request.grant)
  end
  return 'granted ' .. token .. ' ' .. lease_ms .. ' ' .. count_waiting()
end

-- write_place_at(its, name, request, record): as write_place(), for one name. Returns the rank.
local function write_place_at(its, name, request, record)
  local command, queue, ttl_ms = redis.call, its[2], request.ttl_ms
  if not name.rank or request.placed_at ~= request.ticket then
    command('ZADD', queue, request.ticket_text, request.grant)
  end
  command('HSET', its[3], request.grant, record)
  local left_ms = command('PTTL', its[3])
  local short = left_ms < 2.5 * request.heartbeat_ms
  if short then
    command('PEXPIRE', its[3], ttl_ms)
  end
  -- A queue must not expire before its waiters' records.
  if name.waiting == 0 then
    command('PEXPIRE', queue, short and ttl_ms or left_ms)
  elseif short then
    command('PEXPIRE', queue, ttl_ms, 'GT')
  end
  return name.rank or request.comes_last and name.waiting or command('ZRANK', queue, request.grant)
end

-- pass_by(i, name, request, rank, now): the request does not get this name, so the next waiter
-- does. `rank` is the request's place there. Returns when that waiter's claim ends, in ms, 0 if
-- there is none.
local function pass_by(i, name, request, rank, now)
  local choice = name.choice
  if name.mine then  -- left over from a grant that was lost: a waiter has no name
    redis.call('DEL', names[i][1])
    if name.waiting > 0 then
      carry_out(i, name, choose_at(i, name, nil, now), now)
    end
  elseif choice and name.is_next then
    select_name(i)
    remove_waiters(choice.passed_over)
  elseif choice then
    choice.request = nil
    choice.follows = rank and rank - #choice.passed_over == 1
    carry_out(i, name, choice, now)
    return choice.winner and choice.winner.claim_ms or 0
  elseif not name.free and (request.recalls or rank == 0) then
    select_name(i)
    recall(name.holder, request)
  end
  return 0
end

-- frees_in(all): in how many ms all taken names may be free; -1 if that is not known, since a
-- foreign owner publishes nothing.
local function frees_in(all)
  local latest_ms, known = 0, ''
  for i, name in ipairs(all) do
    if not name.free and not name.mine then
      if name.holder ~= known and not client_of(name.holder) then
        return -1
      end
      known = name.holder
      local left_ms = redis.call('PTTL', names[i][1])
      if left_ms < 0 then
        return -1
      end
      latest_ms = math.max(latest_ms, left_ms)
    end
  end
  return latest_ms
end

-- is_fresh(request, all, now): whether all its records are recent, and it was not invited since:
-- then this call only continues the last one, and need not write them again.
local function is_fresh(request, all, now)
  local known
  for _, name in ipairs(all) do
    if not name.rank then
      return false
    elseif name.record ~= known then
      local waiter = parse_waiter(request.grant, name.record)
      if not waiter or waiter.invited_us ~= 0 or
          now - waiter.asked_us > 250 * request.heartbeat_ms then
        return false
      end
      known = name.record
    end
  end
  return not request.listen and request.placed_at == request.ticket
end

-- acquire(request, now): grants all names if all are free and the request is next at each;
-- otherwise queues it at all of them, or refuses it. Names that are free for another waiter are
-- handed over. Returns acquire's reply.
local function acquire(request, now)
  local all, held = survey(request.grant)
  if held == #names then
    return answer_again(request, all, now)
  end
  find_ticket(request, all, now)
  local refreshes = request.wait and not is_fresh(request, all, now)
  if refreshes then  -- that is work enough for one call
    names_left, waiters_left = 4, 16
  end
  if choose_all(request, all, now) then
    return grant_all(request, all, now)
  end

  local retry_after_ms, position = 0, 0
  local record = refreshes and record_of(request, now)
  request.ttl_ms = string.format('%.0f', 3 * request.heartbeat_ms)
  if refreshes and request.placed_at then  -- opens the way where memory is full
    redis.call('PEXPIRE', names[1][2], request.ttl_ms, 'GT')
  end
  for i, name in ipairs(all) do
    local rank = refreshes and write_place_at(names[i], name, request, record) or name.rank
    if rank then
      local choice = name.choice or {passed_over = {}}
      position = math.max(position, rank - #choice.passed_over - (choice.winner and 1 or 0))
    end
    retry_after_ms = math.max(retry_after_ms, pass_by(i, name, request, rank, now))
  end
  if refreshes and request.attempt > 1 then  -- at one name: all would take long
    select_name(1 + now % #names)
    forget_crashed(KEYS[2], now)
  end
  if position == 0 then
    local in_ms = frees_in(all)
    retry_after_ms = in_ms < 0 and -1 or math.max(retry_after_ms, in_ms)
  end
  local checks = check_note(check_ms, unfinished)
  if not request.wait then
    return 'busy ' .. retry_after_ms .. checks
  end
  return string.format('queued %d %d %s', retry_after_ms, position, request.ticket_text) ..
    checks .. caller_notes(request)
end
