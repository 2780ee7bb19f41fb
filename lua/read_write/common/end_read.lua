-- include: common/leave
-- include: read_write/common/read_again

-- end_read(hold, gone_ms, request, now): ends a read grant, or takes it off the queue, and passes
-- the lock on if that makes it possible. Answers whether it was live; the reply to the request for
-- a fresh grant, which counts only then; the look that the caller is asked for; and whether the
-- grant was queued.
local function end_read(hold, gone_ms, request, now)
  local state = read_state(now, hold)
  local holds = state.holds
  local fence = read_fence()
  local held = read_expiry(hold, now) ~= nil
  local was_queued = leave(hold, gone_ms, writers_key)
  if not held then
    request = nil
  end
  local fresh_expiry = request and read_expiry(request.hold, now)
  if fresh_expiry then
    redis.call('ZREM', readers_key, hold)
    return held, read_again(request, fresh_expiry, state, fence, now), '', was_queued
  end
  local choice
  if not request and state.read_us > now and state.writers_waiting > 0 and
      not (holds.phase or holds.ended) then
    -- Others read on and a writer waits, so it is no waiter's turn: spare the look at it.
    choice = {readers = {}, dead_writers = {}, dead_readers = {}}
  else
    choice = choose(request, state, now)
    choice.frees = holds.count > 0 and state.read_us <= now and not choice.joins
  end
  if held then
    redis.call('ZREM', readers_key, hold)
  end
  expire_readers(now)
  purge(holds)
  local reply, look = settle(choice, state, fence, now)
  return held, reply, look, was_queued
end
