-- include: common/find_place
-- include: common/notes
-- include: common/call_keeper
-- include: common/window_size

-- lengthen_ttl(key, ttl_ms): never shortens it, and gives one to a key that has none. Answers what
-- it was.
local function lengthen_ttl(key, ttl_ms)
  local left_ms = redis.call('PTTL', key)
  if left_ms < ttl_ms then
    redis.call('PEXPIRE', key, ttl_ms)
  end
  return left_ms
end

-- forget_crashed(queue_key, now): of a window of those who wait, somewhere in the queue, removes
-- those that have not asked for a whole lease, or for three heartbeats if they asked for a claim.
-- As long as others hold the lock, no other script may look at them, and those that wait keep the
-- keys.
local function forget_crashed(queue_key, now)
  local behind = redis.call('ZCARD', queue_key) - window
  local first = behind > 0 and now % (behind + 1) or 0
  local holds, crashed = redis.call('ZRANGE', queue_key, first, first + window - 1), {}
  for i, record in ipairs(holds[1] and redis.call('HMGET', KEYS[3], unpack(holds)) or {}) do
    local asked_us, lease_ms, heartbeat_ms =
      string.match(record or '', '^(%d+) (%d+) %d+ %d+ %d (%d+) ')
    if not asked_us or asked_us + 1000 * math.max(lease_ms, 3 * heartbeat_ms) < now then
      crashed[#crashed + 1] = holds[i]
    end
  end
  if crashed[1] then
    redis.call('ZREM', queue_key, unpack(crashed))
    redis.call('HDEL', KEYS[3], unpack(crashed))
  end
end

-- record_of(request, now): what KEYS[3] says of it. If its channel has no subscriber, the record
-- says that it polls.
local function record_of(request, now)
  request.deaf = request.listen and redis.call('PUBSUB', 'NUMSUB', request.channel)[2] == 0
  -- Joined by '..', since %s ends at a NUL.
  return string.format('%.0f %.0f %.0f %.0f %d %.0f %d %.0f %.0f %d ', now, request.lease_ms,
    request.block, request.attempt, request.names and 2 or 1, request.heartbeat_ms,
    request.manual and 1 or 0, request.ticket, request.claim_ms, request.deaf and 1 or 0) ..
    request.channel .. ' ' .. #request.owner .. ' ' .. request.owner ..
    (request.names and ' 0 ' .. request.names or '')
end

-- stand(request, record, now): puts the request at its ticket, or refreshes it. Answers its
-- position. The first in the queue calls the client that may keep request.holder, if that is known.
local function stand(request, record, now)
  local queue_key = request.queue_key or KEYS[2]
  local ttl_ms = 3 * request.heartbeat_ms
  if request.queued then
    -- Opens the way for a heartbeat where memory is full.
    redis.call('PEXPIRE', queue_key, ttl_ms, 'GT')
  end
  redis.call('ZADD', queue_key, request.ticket, request.hold)
  redis.call('HSET', KEYS[3], request.hold, record)
  -- No queue ends before the records of those in it, which may be in two; and a call that prolongs
  -- these looks for crashed ones, so that it is often enough, and seldom.
  local left_ms, other = lengthen_ttl(KEYS[3], ttl_ms), request.other_queue
  if not request.queued or left_ms > ttl_ms then
    lengthen_ttl(queue_key, math.max(left_ms, ttl_ms))
  end
  if other and left_ms >= 0 and left_ms < ttl_ms then
    redis.call('PEXPIRE', other, ttl_ms, 'GT')
  end
  if left_ms >= 0 and left_ms < 2.5 * request.heartbeat_ms then
    forget_crashed(queue_key, now)
    if other then
      forget_crashed(other, now)
    end
  end
  local position = redis.call('ZRANK', queue_key, request.hold)
  if position == 0 and request.holder then
    call_keeper(request.holder, request)
  end
  return position
end

-- enqueue(request, retry_after_ms, now, look_ms, unfinished): puts the request where find_place()
-- said, or refreshes it. Answers acquire's reply.
local function enqueue(request, retry_after_ms, now, look_ms, unfinished)
  local position = stand(request, record_of(request, now), now)
  return 'queued ' .. retry_after_ms .. ' ' .. position .. string.format(' %.0f', request.ticket) ..
    look_note(look_ms, unfinished) .. caller_notes(request)
end
