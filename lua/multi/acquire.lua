-- Grants all names of the lock at once, or queues the request at all of them, or refuses it. A
-- request gets the names when all are free and it is the first at each. While it waits, it has
-- none.
--
-- KEYS   1 to 5 as in lua/README.md, of a simple lock of the first name; then 1 to 4 of each other
-- ARGV   as simple/acquire's, with a wait of 2 in place of 1
-- reply  as simple/acquire's. The token is the same for all names; the position is its last in any
--        queue
local call, keys, me, terms = redis.call, KEYS, ARGV[1], ARGV[3]

-- The fast path: see simple/acquire. It equals grant_all() if all names are free, no client waits,
-- and the one token that it wants is the server's time, because each fence is in the same period
-- and not ahead.
if string.sub(terms, 1, 2) == '1 ' then
  local taken, fences = {keys[1], keys[2], keys[5]}, {keys[4]}
  for i = 6, #keys, 4 do
    taken[#taken + 1], taken[#taken + 2] = keys[i], keys[i + 1]
    fences[#fences + 1] = keys[i + 3]
  end
  if call('EXISTS', unpack(taken)) == 0 then
    local time = call('TIME')
    local now = time[1] .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
    local period, behind = string.sub(now, 1, 8), true
    for _, fence_key in ipairs(fences) do
      local fence = call('GET', fence_key)
      behind = behind and fence and #fence == 16 and fence < now and fence >= period
    end
    if behind then
      local lease_ms = ARGV[2]
      for i = 1, #fences do
        call('SETRANGE', fences[i], '0', now)
        call('PSETEX', keys[i > 1 and 4 * i - 2 or 1], lease_ms, me)
      end
      return 'granted ' .. now .. ' ' .. lease_ms .. ' 0'
    end
  end
end

-- include: common/time
-- include: common/request
-- include: common/fence
-- include: common/grant_id
-- include: common/flag
-- include: common/extend_lease
-- include: simple/common/take
-- include: multi/common/choose_at

-- reserve_everywhere(block, now): reserves the same `block` tokens for all names. They are larger
-- than every token of any name. Returns the first.
local function reserve_everywhere(block, now)
  local largest = 0
  for _, name in ipairs(names) do
    largest = math.max(largest, name.fence)
  end
  local first = math.max(now, largest + 1)
  for _, name in ipairs(names) do
    select_name(name)
    -- `first` serves as the clock here: every fence is behind it.
    reserve_tokens(name.fence, block, first)
  end
  return string.format('%.0f', first)
end

-- find_ticket(request, now): sets one ticket for all queues. It is the older of the one that the
-- request has and the one that its client knows. If there is none, it is a new one behind all
-- waiters (the request `comes_last`). Also sets the latest attempt. Both are the same in every
-- queue.
local function find_ticket(request, now)
  local command = redis.call
  local attempt_in_record = '^%d+ %d+ %d+ (%d+) '  -- see common/parse_waiter
  request.missed = false
  for _, name in ipairs(names) do
    if name.rank and not request.placed_at then
      request.placed_at = tonumber(command('ZSCORE', name.queue, request.grant))
      request.attempt = math.max(request.attempt,
        tonumber(string.match(name.record, attempt_in_record)) or 0)
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
    for _, name in ipairs(request.wait and names or {}) do
      if name.waiting > 0 and command('ZCOUNT', name.queue, text, '+inf') > 0 then
        ticket = tonumber(command('ZRANGE', name.queue, '-1', '-1', 'WITHSCORES')[2]) + 1
        text = string.format('%.0f', ticket)
      end
    end
  end
  request.ticket, request.ticket_text, request.placed = ticket, text, true
end

-- count_waiting(): returns at how many of the names other clients wait.
local function count_waiting()
  return redis.call('EXISTS', unpack(all_keys('queue')))
end

-- answer_again(request, now): returns acquire's reply to a repeat. The grant keeps its token.
local function answer_again(request, now)
  local lease_ms, fence = math.huge, 0
  for _, name in ipairs(names) do
    select_name(name)
    lease_ms, fence = math.min(lease_ms, extend_lease(request)), math.max(fence, name.fence)
    if name.record then
      remove_waiter(request.grant)
    end
  end
  local token = fence >= request.amount and string.format('%.0f', fence - request.amount + 1)
    or reserve_everywhere(request.amount, now)
  return string.format('granted %s %.0f %d', token, lease_ms, count_waiting())
end

-- choose_all(request, now): sets `is_next` for each free name at which the request is next, and the
-- `choice` for the others. Returns true if all names are free and the request is next at each.
local function choose_all(request, now)
  local grants = true
  for _, name in ipairs(names) do
    name.is_next = name.free and (name.rank == 0 or name.waiting == 0)
    if name.free and not name.is_next then
      request.queued = name.rank ~= nil
      local choice = choose_at(name, request, now)
      name.choice = choice
      name.is_next = not (choice.winner or choice.invited or choice.unfinished)
    end
    grants = grants and (name.mine or name.is_next)
  end
  return grants
end

-- grant_all(request, now): grants all names. Returns acquire's reply.
local function grant_all(request, now)
  for _, name in ipairs(names) do
    select_name(name)
    if name.choice then
      remove_waiters(name.choice.passed_over)
    end
    if name.record then
      remove_waiter(request.grant)
    end
  end
  local token = reserve_everywhere(request.amount, now)
  local lease_ms = string.format('%.0f', request.lease_ms)
  for _, name in ipairs(names) do
    redis.call('PSETEX', name.lock, lease_ms, request.grant)
  end
  return 'granted ' .. token .. ' ' .. lease_ms .. ' ' .. count_waiting()
end

-- write_place_at(name, request, record): does what write_place() does, for one name. Returns the
-- rank.
local function write_place_at(name, request, record)
  local command, queue, ttl_ms = redis.call, name.queue, request.ttl_ms
  if not name.rank or request.placed_at ~= request.ticket then
    command('ZADD', queue, request.ticket_text, request.grant)
  end
  command('HSET', name.waiters, request.grant, record)
  local left_ms = command('PTTL', name.waiters)
  local short = left_ms < 2.5 * request.heartbeat_ms
  if short then
    command('PEXPIRE', name.waiters, ttl_ms)
  end
  -- A queue must not expire before its waiters' records.
  if name.waiting == 0 then
    command('PEXPIRE', queue, short and ttl_ms or left_ms)
  elseif short then
    command('PEXPIRE', queue, ttl_ms, 'GT')
  end
  return name.rank or request.comes_last and name.waiting or command('ZRANK', queue, request.grant)
end

-- pass_by(name, request, rank, now): gives this name, which the request does not get, to the next
-- waiter. `rank` is the request's place there. Returns in how many ms that waiter's claim ends, 0
-- if there is no waiter.
local function pass_by(name, request, rank, now)
  local choice = name.choice
  if name.mine then  -- left over from a grant that was lost: a waiter has no name
    redis.call('DEL', name.lock)
    if name.waiting > 0 then
      carry_out(name, choose_at(name, nil, now), now)
    else
      select_name(name)
      leave_free()
    end
  elseif name.is_next then
    select_name(name)
    remove_waiters(choice and choice.passed_over or {})
    leave_free()
  elseif choice then
    choice.request = nil
    choice.follows = rank and rank - #choice.passed_over == 1
    carry_out(name, choice, now)
    return choice.winner and choice.winner.claim_ms or 0
  elseif not name.free then
    select_name(name)
    if request.recalls or rank == 0 then
      recall(name.holder, request)
    end
    if request.wait then
      flag(name.holder, request)
    end
  end
  return 0
end

-- frees_in(position): returns in how many ms all taken names may be free, -1 if that is not known.
-- The first waiter polls a foreign owner, which publishes nothing.
local function frees_in(position)
  local latest_ms, known = 0, ''
  for _, name in ipairs(names) do
    if not name.free and not name.mine then
      if position == 0 and name.holder ~= known and not client_of(name.holder) then
        return -1
      end
      known = name.holder
      local left_ms = redis.call('PTTL', name.lock)
      if left_ms < 0 then
        return -1
      end
      latest_ms = math.max(latest_ms, left_ms)
    end
  end
  return latest_ms
end

-- is_fresh(request, now): returns true if all its records are recent, and it was not invited since
-- they were written. This call then only continues the last one, and need not write them again.
local function is_fresh(request, now)
  local known
  for _, name in ipairs(names) do
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
  local held = survey(request.grant)
  if held == #names then
    return answer_again(request, now)
  end
  find_ticket(request, now)
  local refreshes = request.wait and not is_fresh(request, now)
  if refreshes then  -- that is enough work for one call
    names_left, waiters_left = 4, 16
  end
  if choose_all(request, now) then
    return grant_all(request, now)
  end

  local retry_after_ms, position = 0, 0
  local record = refreshes and record_of(request, now)
  request.ttl_ms = string.format('%.0f', 3 * request.heartbeat_ms)
  if refreshes and request.placed_at then  -- lets what follows pass if memory is full
    redis.call('PEXPIRE', names[1].queue, request.ttl_ms, 'GT')
  end
  for _, name in ipairs(names) do
    local rank = refreshes and write_place_at(name, request, record) or name.rank
    if rank then
      local choice = name.choice or {passed_over = {}}
      position = math.max(position, rank - #choice.passed_over - (choice.winner and 1 or 0))
    end
    retry_after_ms = math.max(retry_after_ms, pass_by(name, request, rank, now))
  end
  if refreshes and request.attempt > 1 then  -- one window in all
    local some = math.min(#names, 16)
    for i = 1, some do
      select_name(names[1 + (now + i) % #names])
      forget_crashed(KEYS[2], now, math.floor(window / some))
    end
  end
  local in_ms = frees_in(position)
  retry_after_ms = in_ms < 0 and -1 or math.max(retry_after_ms, in_ms)
  local checks = check_note(check_ms, unfinished)
  if not request.wait then
    return 'busy ' .. retry_after_ms .. checks
  end
  return string.format('queued %d %d %s', retry_after_ms, position, request.ticket_text) ..
    checks .. caller_notes(request)
end
-- include: common/refuse_cancelled

return acquire(read_request(0), now_us())
