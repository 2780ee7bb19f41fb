-- include: common/find_place
-- include: common/notes
-- include: common/recall
-- include: common/window_size

-- lengthen_ttl(key, ttl_ms): sets the TTL if the key has none or a shorter one.
local function lengthen_ttl(key, ttl_ms)
  if redis.call('PTTL', key) < ttl_ms then
    redis.call('PEXPIRE', key, ttl_ms)
  end
end

-- forget_crashed(queue_key, now, most): removes waiters that have not asked for a whole lease and
-- three heartbeats, from `most` places of the queue, which change. Each place is equally likely.
-- While the lock is held, no other script removes them, and live waiters prolong the keys.
local function forget_crashed(queue_key, now, most)
  local asked_lease_and_heartbeat = '^(%d+) (%d+) %d+ %d+ %d (%d+) '  -- see common/parse_waiter
  local waiting = redis.call('ZCARD', queue_key)
  local last = waiting > most and now % (waiting + most - 1) or most - 1
  local grants, crashed = redis.call('ZRANGE', queue_key, math.max(0, last - most + 1), last), {}
  for i, record in ipairs(grants[1] and redis.call('HMGET', KEYS[3], unpack(grants)) or {}) do
    local asked_us, lease_ms, heartbeat_ms = string.match(record or '', asked_lease_and_heartbeat)
    if not asked_us or asked_us + 1000 * math.max(lease_ms, 3 * heartbeat_ms) < now then
      crashed[#crashed + 1] = grants[i]
    end
  end
  if crashed[1] then
    redis.call('ZREM', queue_key, unpack(crashed))
    redis.call('HDEL', KEYS[3], unpack(crashed))
  end
end

-- record_of(request, now): returns the waiter's record for KEYS[3]. If its channel has no
-- subscriber, the record says that it polls. `secret` is only for a quorum.
local function record_of(request, now)
  request.unsubscribed = request.listen and redis.call('PUBSUB', 'NUMSUB', request.channel)[2] == 0
  -- '..' joins the text, since %s ends at a NUL.
  return string.format('%.0f %.0f %.0f %.0f %d %.0f %d %.0f %.0f %d ', now, request.lease_ms,
    request.amount, request.attempt, request.names and 2 or 1, request.heartbeat_ms,
    request.manual and 1 or 0, request.ticket, request.claim_ms, request.unsubscribed and 1 or 0) ..
    request.channel .. ' ' .. #request.owner .. ' ' .. request.owner ..
    (request.names and ' 0 ' .. request.names or request.secret and ' ' .. request.secret or '')
end

-- write_place(request, record, now): writes or refreshes the waiter at its ticket. Returns its
-- position. The first waiter recalls request.holder, if that is known.
local function write_place(request, record, now)
  local queue_key = request.queue_key or KEYS[2]
  local ttl_ms = 3 * request.heartbeat_ms
  if request.queued then
    -- If memory is full, this lets the commands that follow it pass.
    redis.call('PEXPIRE', queue_key, ttl_ms, 'GT')
  end
  redis.call('ZADD', queue_key, request.ticket, request.grant)
  redis.call('HSET', KEYS[3], request.grant, record)
  -- A queue must not expire before the records, which two queues may share. Only here are the
  -- records prolonged, twice per heartbeat at most, and crashed waiters removed each time: if live
  -- waiters prolonged them sooner, the crashed ones would stay.
  local left_ms, other = redis.call('PTTL', KEYS[3]), request.other_queue
  local short = left_ms < 2.5 * request.heartbeat_ms
  if short then
    redis.call('PEXPIRE', KEYS[3], ttl_ms)
  end
  if short or not request.queued then
    lengthen_ttl(queue_key, math.max(left_ms, ttl_ms))
  end
  if short and left_ms >= 0 then
    forget_crashed(queue_key, now, window)
    if other then
      redis.call('PEXPIRE', other, ttl_ms, 'GT')
      forget_crashed(other, now, window)
    end
  end
  local position = redis.call('ZRANK', queue_key, request.grant)
  if position == 0 and request.holder then
    recall(request.holder, request)
  end
  return position
end

-- enqueue(request, retry_after_ms, now, check_ms, unfinished): queues the request where
-- find_place() said, or refreshes it. Returns acquire's reply.
local function enqueue(request, retry_after_ms, now, check_ms, unfinished)
  local position = write_place(request, record_of(request, now), now)
  -- The first waiter polls a foreign owner. The others ask when its key expires.
  if retry_after_ms == -1 and position > 0 then
    retry_after_ms = redis.call('PTTL', KEYS[1])
  end
  return 'queued ' .. retry_after_ms .. ' ' .. position .. string.format(' %.0f', request.ticket) ..
    check_note(check_ms, unfinished) .. caller_notes(request)
end
