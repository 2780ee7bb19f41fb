-- include: common/find_place
-- include: common/notes
-- include: common/call_keeper

-- lengthen_ttl(key, ttl_ms): never shortens it, and gives one to a key that has none.
local function lengthen_ttl(key, ttl_ms)
  if redis.call('PTTL', key) < ttl_ms then
    redis.call('PEXPIRE', key, ttl_ms)
  end
end

-- record_of(request, now): what KEYS[3] says of it. That of a deaf one says that it polls.
local function record_of(request, now)
  request.deaf = request.listen and redis.call('PUBSUB', 'NUMSUB', request.channel)[2] == 0
  -- Joined by '..', since %s ends at a NUL.
  return string.format('%.0f %.0f %.0f %.0f %d %.0f %d %.0f %.0f %d ', now, request.lease_ms,
    request.block, request.attempt, request.names and 2 or 1, request.heartbeat_ms,
    request.manual and 1 or 0, request.ticket, request.claim_ms, request.deaf and 1 or 0) ..
    request.channel .. ' ' .. #request.owner .. ' ' .. request.owner ..
    (request.names and ' 0 ' .. request.names or '')
end

-- stand(request, record): puts the request at its ticket, or refreshes it. Answers its position.
-- The first in the queue calls the client that may keep request.holder, if that is known.
local function stand(request, record)
  local queue_key = request.queue_key or KEYS[2]
  local ttl_ms = 3 * request.heartbeat_ms
  if request.queued then
    -- Opens the way for a heartbeat where memory is full.
    redis.call('PEXPIRE', queue_key, ttl_ms, 'GT')
  end
  redis.call('ZADD', queue_key, request.ticket, request.hold)
  redis.call('HSET', KEYS[3], request.hold, record)
  if not request.queued then
    lengthen_ttl(queue_key, ttl_ms)
  end
  lengthen_ttl(KEYS[3], ttl_ms)
  local position = redis.call('ZRANK', queue_key, request.hold)
  if position == 0 and request.holder then
    call_keeper(request.holder, request)
  end
  return position
end

-- enqueue(request, retry_after_ms, now, look_ms, unfinished): puts the request where find_place()
-- said, or refreshes it. Answers acquire's reply.
local function enqueue(request, retry_after_ms, now, look_ms, unfinished)
  local position = stand(request, record_of(request, now))
  return 'queued ' .. retry_after_ms .. ' ' .. position .. string.format(' %.0f', request.ticket) ..
    look_note(look_ms, unfinished) .. caller_notes(request)
end
