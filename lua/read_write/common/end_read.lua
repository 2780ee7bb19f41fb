-- include: common/leave
-- include: read_write/common/read_again

-- end_read(grant, gone_ms, request, now): ends a read grant or removes it from the queue, and hands
-- the lock over if that makes it possible. Returns true if it was live; acquire_read's reply to the
-- request, which counts only in that case; the handover check as a note; and true if the grant was
-- queued.
local function end_read(grant, gone_ms, request, now)
  local state = read_state(now, grant)
  local grants = state.grants
  local fence = read_fence()
  local held = read_expiry(grant, now) ~= nil
  local was_queued = leave(grant, gone_ms, waiting_writers_key)
  if not held then
    request = nil
  end
  local fresh_expiry = request and read_expiry(request.grant, now)
  if fresh_expiry then
    redis.call('ZREM', read_grants_key, grant)
    return held, read_again(request, fresh_expiry, state, fence, now), '', was_queued
  end
  local choice
  if not request and state.read_us > now and state.writers_waiting > 0 and
      not (grants.phase or grants.ended) then
    -- Others still read and a writer waits, so no waiter can get in: skip choose().
    choice = {readers = {}, dead_writers = {}, dead_readers = {}}
  else
    choice = choose(request, state, now)
    choice.frees = grants.count > 0 and state.read_us <= now and not choice.joins
  end
  if held then
    redis.call('ZREM', read_grants_key, grant)
  end
  expire_readers(now)
  purge(grants)
  local reply, check = settle(choice, state, fence, now)
  return held, reply, check, was_queued
end
