-- include: common/fence
-- include: common/notes
-- include: common/publish_grant
-- include: reentrant/common/let_owner_in
-- include: read_write/common/state
-- include: read_write/common/choose
-- include: read_write/common/drop
-- include: read_write/common/take
-- include: read_write/common/expire_readers
-- include: read_write/common/granted
-- include: read_write/common/call_keepers

-- keep_phase(phase, holds): remembers whose turn it is, or that no turn is left. The hash has no
-- owner meanwhile. It ends with the readers, if no client asks for that long.
local function keep_phase(phase, holds)
  if phase and not holds.phase then
    redis.call('HSET', KEYS[1], 'kind', 'read_write/2', 'phase', string.format('%.0f', phase))
    redis.call('PEXPIRE', KEYS[1], math.max(1, redis.call('PTTL', KEYS[2])))
  elseif holds.phase and not phase then
    redis.call('UNLINK', KEYS[1])
  end
end

-- stay_out(choice, holds, look_ms, now): queues a request that does not get in, or refuses it. It
-- is worth another look when the earliest of what keeps it out could end: the write; for a writer
-- the first read, as the others may have left by then; for a reader the writer that waits, if it
-- does not go on to tell that it lives.
local function stay_out(choice, holds, look_ms, now)
  local request = choice.request
  local until_us = math.huge
  if choice.writer then
    until_us = now + 1000 * choice.writer.claim_ms
  elseif holds.count > 0 then
    until_us = holds.latest
  end
  if not request.reader then
    local first = redis.call('ZRANGEBYSCORE', readers_key, string.format('(%.0f', now), '+inf',
      'WITHSCORES', 'LIMIT', 0, 1)[2]
    until_us = math.min(until_us, tonumber(first) or math.huge)
  elseif until_us == math.huge and choice.first_writer then
    until_us = choice.first_writer.overdue_us
  end
  local retry_after_ms = until_us == math.huge and 0 or math.ceil((until_us - now) / 1000)
  retry_after_ms = math.max(0, retry_after_ms)
  if not request.wait then
    if request.calls then
      call_keepers(request, holds, now)
    end
    return 'busy ' .. retry_after_ms .. look_note(look_ms, choice.unfinished)
  end
  local unfinished = choice.unfinished
  local queue = request.queue_key or KEYS[2]
  local first = redis.call('ZRANGE', queue, '0', '0')[1]
  if not choice.writer and (not first or first == request.hold) then
    unfinished = call_keepers(request, holds, now) or unfinished
  end
  return enqueue(request, retry_after_ms, now, look_ms, unfinished)
end

-- leave_queue(choice): those who get in, and those who are dead.
local function leave_queue(choice)
  local request, writers, readers = choice.request, choice.dead_writers, choice.dead_readers
  if choice.writer then
    writers[#writers + 1] = choice.writer.hold
  end
  for _, reader in ipairs(choice.readers) do
    readers[#readers + 1] = reader.hold
  end
  if choice.joins and request.queued then
    local queue = request.reader and readers or writers
    queue[#queue + 1] = request.hold
  end
  drop(writers, readers)
end

-- let_in(choice, state, fence, now): those who get in by a message, and the request if it writes.
-- An owner that its user named brings the waiters that are its own. Answers the longest of the
-- claims, and the token of the write.
local function let_in(choice, state, fence, now)
  local request, writer, holds = choice.request, choice.writer, state.holds
  local owner = choice.frees and holds.owner  -- it may write further, as no client reads any more
  local look_ms, token
  if writer then
    owner, look_ms = writer.writer, writer.claim_ms
    token = reserve_tokens(fence, writer.block, now)
    take_write(writer, look_ms, token, now, holds)
    holds = choice.joins and read_holds(now, 'read_write/2')
  elseif choice.readers[1] then
    look_ms = take_reads(choice.readers, now)
  end
  if choice.joins and not request.reader then
    owner = owner or holds.count == 0 and request.writer
    local shared = holds.count > 0 and string.sub(request.writer, 1, 5) == 'user:'
    token = shared and latest_token(holds) or reserve_tokens(fence, request.block, now)
    take_write(request, request.lease_ms, token, now, holds)
  end
  local claims_ms = owner and let_owner_in('read_write/2', owner, writers_key, now)
  return claims_ms and math.max(look_ms or 0, claims_ms) or look_ms, token
end

-- settle(choice, state, fence, now): carries out what choose() chose, for all. Answers the
-- request (nil without one), and the look that the caller is asked for: a note, '' for none. The
-- grants of the writer that have ended are purged before. Grants are published when all else is
-- written.
local function settle(choice, state, fence, now)
  local request, writer, readers, holds = choice.request, choice.writer, choice.readers, state.holds
  leave_queue(choice)
  keep_phase(choice.phase, holds)

  -- If the last write is not known any more, readers get a token that is larger than its own.
  if fence == 0 and (readers[1] or choice.joins and request.reader) then
    fence = tonumber(reserve_tokens(0, 1, now))
  end
  local look_ms, token = let_in(choice, state, fence, now)

  local reply
  if choice.joins and request.reader then
    take_read(request, request.lease_ms, now)
    -- It need not look whether others took what they were given, as long as it reads itself.
    reply = granted_read(request, fence, request.lease_ms, holds,
      look_note(nil, choice.unfinished))
  elseif choice.joins then
    reply = granted_write(request, token, request.lease_ms, look_ms)
  elseif request then
    reply = stay_out(choice, holds, look_ms, now)
  end
  if readers[1] or choice.joins and request.reader then
    expire_readers(now)
  end

  if writer then
    publish_grant(writer, token, redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', writers_key))
  elseif readers[1] then
    local last_token, waiting = string.format('%.0f', fence), others(holds)
    for _, reader in ipairs(readers) do
      publish_grant(reader, last_token, waiting)
    end
  end
  return reply, look_note(look_ms, choice.unfinished)
end
