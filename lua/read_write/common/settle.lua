-- include: common/fence
-- include: common/granted
-- include: read_write/common/state
-- include: read_write/common/choose
-- include: read_write/common/drop
-- include: read_write/common/take
-- include: read_write/common/granted_read

-- stay_out(request, holds, now): queues a request that does not get in, with the marker of a
-- writer, or refuses it. It is worth another look when the earliest of what keeps it out could end:
-- the writer's hold; for a writer the first reader, as the others may have left by then; for a
-- reader the last marker.
local function stay_out(request, holds, now)
  local until_us = holds.count > 0 and holds.latest or math.huge
  if not request.reader then
    local first = redis.call('ZRANGEBYSCORE', readers_key, string.format('(%.0f', now), '+inf',
      'WITHSCORES', 'LIMIT', 0, 1)[2]
    until_us = math.min(until_us, first and tonumber(first) or math.huge)
  elseif holds.count == 0 then
    until_us = latest(markers_key)
  end
  if until_us == math.huge then
    until_us = now
  end
  local retry_after_ms = math.max(0, math.ceil((until_us - now) / 1000))
  if not request.wait then
    return 'busy ' .. retry_after_ms
  end
  local reply = enqueue(request, retry_after_ms, now)
  if not request.reader then
    redis.call('ZADD', markers_key, now + 3000 * request.heartbeat_ms, request.hold)
    lengthen_ttl(markers_key, 3 * request.heartbeat_ms)
  end
  return reply
end

-- settle(choice, state, fence, now): carries out what choose() chose, for everybody, and answers
-- the request, if there is one. The writer's ended holds are purged before. Grants are published
-- when all else is written.
local function settle(choice, state, fence, now)
  local request, writer, holds = choice.request, choice.writer, state.holds
  for _, hold in ipairs(choice.passed_over) do
    drop(hold)
  end
  local token
  if writer then
    drop(writer.hold)
    token = reserve_tokens(fence, writer.block, now)
    take_write(writer, token, now, holds)
  end
  for _, reader in ipairs(choice.readers) do
    drop(reader.hold)
    take_read(reader, now)
  end

  local reply
  if choice.joins then
    if request.queued then
      drop(request.hold)
    end
    if request.reader then
      take_read(request, now)
      reply = granted_read(fence, request.lease_ms, holds, now)
    else
      local own_token = reserve_tokens(fence, request.block, now)
      take_write(request, own_token, now, holds)
      reply = granted(own_token, request.lease_ms)
    end
  elseif request then
    reply = stay_out(request, holds, now)
  end
  if choice.readers[1] or choice.joins and request.reader then
    redis.call('ZREMRANGEBYSCORE', readers_key, '-inf', now)
  end

  local function publish(waiter, its_token, waiting)
    redis.call('PUBLISH', waiter.channel, 'grant ' .. waiter.hold .. ' ' .. waiter.attempt .. ' ' ..
      its_token .. ' ' .. waiter.lease_ms .. ' ' .. waiting .. ' ' .. KEYS[1])
  end
  if writer then
    publish(writer, token, redis.call('ZCARD', KEYS[2]))
  elseif choice.readers[1] then
    local last_token, waiting = string.format('%.0f', fence), others(holds, now)
    for _, reader in ipairs(choice.readers) do
      publish(reader, last_token, waiting)
    end
  end
  return reply
end
