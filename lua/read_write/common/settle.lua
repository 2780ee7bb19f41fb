-- include: common/fence
-- include: common/notes
-- include: common/publish_grant
-- include: reentrant/common/let_owner_in
-- include: read_write/common/state
-- include: read_write/common/choose
-- include: read_write/common/expire_readers
-- include: read_write/common/others
-- include: reentrant/common/only_grant

-- recall_grants(request, grants, now): recalls the cached grants that keep the request out: the
-- write or, if it would write, the reads. A call recalls 64 reads, in the order in which they
-- expire. The field 'calls' of KEYS[3] stores for which request, and up to which expiry. Returns
-- true if there are more.
local function recall_grants(request, grants, now)
  if grants.count > 0 then
    local grant = only_grant()
    if grant then
      recall(grant, request)
    end
    return false
  end
  if request.reader then
    return false
  end
  local progress = redis.call('HGET', KEYS[3], 'calls') or ''
  local caller, recalled_us = string.match(progress, '^(%S+) (%d+)$')
  local from = caller == request.grant and recalled_us or string.format('%.0f', now)
  local entries = redis.call('ZRANGEBYSCORE', read_grants_key, '(' .. from, '+inf', 'WITHSCORES',
    'LIMIT', '0', '64')
  for i = 1, #entries, 2 do
    recall(entries[i], request)
  end
  if #entries == 128 and request.wait then
    redis.call('HSET', KEYS[3], 'calls', request.grant .. ' ' ..
      string.format('%.0f', entries[128]))
    return true
  elseif caller then
    redis.call('HDEL', KEYS[3], 'calls')
  end
  return false
end

-- count_waiting(): returns how many readers and writers wait.
local function count_waiting()
  return redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', waiting_writers_key)
end

-- granted_write(request, token, lease_ms, check_ms): returns acquire's reply for a write grant.
-- Other waiters of its owner may have got in by a message.
local function granted_write(request, token, lease_ms, check_ms)
  return 'granted ' .. token .. ' ' .. lease_ms .. ' ' .. count_waiting() ..
    check_note(check_ms) .. (request.missed and ' missed' or '')
end

-- granted_read(request, fence, lease_ms, grants, check): returns acquire_read's reply for a read
-- grant, with the last write's token.
local function granted_read(request, fence, lease_ms, grants, check)
  return 'granted ' .. string.format('%.0f', fence) .. ' ' .. lease_ms .. ' ' .. others(grants) ..
    check .. (request.missed and ' missed' or '')
end

-- take_write(request, lease_ms, token, now, grants): adds a grant to those of its owner, in
-- `grants`.
local function take_write(request, lease_ms, token, now, grants)
  if grants.count == 0 and request.fair then
    redis.call('HSET', KEYS[1], 'policy', 'phase_fair')
  end
  add_grant('read_write/2', request.writer, request.grant, now + 1000 * lease_ms, token, grants)
end

-- take_read(request, lease_ms, now): adds a reader's grant.
local function take_read(request, lease_ms, now)
  redis.call('ZADD', read_grants_key, now + 1000 * lease_ms, request.grant)
  lengthen_ttl(read_grants_key, lease_ms)
end

-- take_reads(waiters, now): adds the readers' grants, each for its claim. Returns the longest
-- claim.
local function take_reads(waiters, now)
  local entries, longest_ms = {}, 0
  for i, waiter in ipairs(waiters) do
    entries[2 * i - 1], entries[2 * i] = now + 1000 * waiter.claim_ms, waiter.grant
    longest_ms = math.max(longest_ms, waiter.claim_ms)
  end
  redis.call('ZADD', read_grants_key, unpack(entries))
  lengthen_ttl(read_grants_key, longest_ms)
  return longest_ms
end

-- drop(writers, readers): removes waiters from their queues, at most two windows of them.
local function drop(writers, readers)
  if writers[1] then
    redis.call('ZREM', waiting_writers_key, unpack(writers))
    redis.call('HDEL', KEYS[3], unpack(writers))
  end
  if readers[1] then
    redis.call('ZREM', KEYS[2], unpack(readers))
    redis.call('HDEL', KEYS[3], unpack(readers))
  end
end

-- keep_phase(phase, grants): stores that waiting readers go first (up to the ticket `phase`), or
-- that the phase is over. The hash then has no owner. It expires with the readers' queue if no
-- client asks.
local function keep_phase(phase, grants)
  if phase and not grants.phase then
    redis.call('HSET', KEYS[1], 'kind', 'read_write/2', 'phase', string.format('%.0f', phase))
    redis.call('PEXPIRE', KEYS[1], math.max(1, redis.call('PTTL', KEYS[2])))
  elseif grants.phase and not phase then
    redis.call('UNLINK', KEYS[1])
  end
end

-- stay_out(choice, grants, check_ms, now): queues or refuses a request that does not get in. The
-- retry is due when what keeps the request out may end. That is the write. If no client writes, it
-- is the first read for a writer, since other readers may have left by then; and for a reader the
-- time at which the first waiting writer will be overdue, unless it sends another heartbeat.
local function stay_out(choice, grants, check_ms, now)
  local request = choice.request
  local until_us = math.huge
  if choice.writer then
    until_us = now + 1000 * choice.writer.claim_ms
  elseif grants.count > 0 then
    until_us = grants.latest
  end
  if not request.reader then
    local first = redis.call('ZRANGEBYSCORE', read_grants_key, string.format('(%.0f', now), '+inf',
      'WITHSCORES', 'LIMIT', 0, 1)[2]
    until_us = math.min(until_us, tonumber(first) or math.huge)
  elseif until_us == math.huge and choice.first_writer then
    until_us = choice.first_writer.overdue_us
  end
  local retry_after_ms = until_us == math.huge and 0 or math.ceil((until_us - now) / 1000)
  retry_after_ms = math.max(0, retry_after_ms)
  if not request.wait then
    if request.recalls then
      recall_grants(request, grants, now)
    end
    return 'busy ' .. retry_after_ms .. check_note(check_ms, choice.unfinished)
  end
  local unfinished = choice.unfinished
  local queue = request.queue_key or KEYS[2]
  local first = redis.call('ZRANGE', queue, '0', '0')[1]
  if not choice.writer and (not first or first == request.grant) then
    unfinished = recall_grants(request, grants, now) or unfinished
  end
  return enqueue(request, retry_after_ms, now, check_ms, unfinished)
end

-- leave_queue(choice): removes the waiters that get in, and the dead ones, from the queues.
local function leave_queue(choice)
  local request, writers, readers = choice.request, choice.dead_writers, choice.dead_readers
  if choice.writer then
    writers[#writers + 1] = choice.writer.grant
  end
  for _, reader in ipairs(choice.readers) do
    readers[#readers + 1] = reader.grant
  end
  if choice.joins and request.queued then
    local queue = request.reader and readers or writers
    queue[#queue + 1] = request.grant
  end
  drop(writers, readers)
end

-- let_in(choice, state, fence, now): admits the waiters that get in by a message, and the request
-- if it writes. Waiters of a user-named owner get in with that owner. Returns the longest claim,
-- and the write's token.
local function let_in(choice, state, fence, now)
  local request, writer, grants = choice.request, choice.writer, state.grants
  local owner = choice.frees and grants.owner  -- it may get another write grant, as no client reads
  local check_ms, token
  if writer then
    owner, check_ms = writer.writer, writer.claim_ms
    token = reserve_tokens(fence, writer.amount, now)
    take_write(writer, check_ms, token, now, grants)
    grants = choice.joins and read_grants(now, 'read_write/2')
  elseif choice.readers[1] then
    check_ms = take_reads(choice.readers, now)
  end
  if choice.joins and not request.reader then
    owner = owner or grants.count == 0 and request.writer
    local shared = grants.count > 0 and string.sub(request.writer, 1, 5) == 'user:'
    token = shared and latest_token(grants) or reserve_tokens(fence, request.amount, now)
    take_write(request, request.lease_ms, token, now, grants)
  end
  local claims_ms = owner and let_owner_in('read_write/2', owner, waiting_writers_key, now)
  return claims_ms and math.max(check_ms or 0, claims_ms) or check_ms, token
end

-- settle(choice, state, fence, now): executes choose()'s choice. Returns acquire's reply (nil
-- without a request), and the handover check as a note. Removes write grants that have ended first.
-- Publishes grants after all writes.
local function settle(choice, state, fence, now)
  local request, writer, readers = choice.request, choice.writer, choice.readers
  local grants = state.grants
  leave_queue(choice)
  keep_phase(choice.phase, grants)

  -- If the last write's token is forgotten, readers get a larger one.
  if fence == 0 and (readers[1] or choice.joins and request.reader) then
    fence = tonumber(reserve_tokens(0, 1, now))
  end
  local check_ms, token = let_in(choice, state, fence, now)

  local reply
  if choice.joins and request.reader then
    take_read(request, request.lease_ms, now)
    -- It need not check handovers to other readers while it reads itself.
    reply = granted_read(request, fence, request.lease_ms, grants,
      check_note(nil, choice.unfinished))
  elseif choice.joins then
    reply = granted_write(request, token, request.lease_ms, check_ms)
  elseif request then
    reply = stay_out(choice, grants, check_ms, now)
  end
  if readers[1] or choice.joins and request.reader then
    expire_readers(now)
  end

  if writer then
    publish_grant(writer, token, count_waiting())
  elseif readers[1] then
    local last_token, waiting = string.format('%.0f', fence), others(grants)
    for _, reader in ipairs(readers) do
      publish_grant(reader, last_token, waiting)
    end
  end
  return reply, check_note(check_ms, choice.unfinished)
end
