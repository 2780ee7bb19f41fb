-- include: reentrant/common/purge
-- include: read_write/common/leave
-- include: read_write/common/settle

-- end_read(hold, gone_ms, request, now): ends a read hold, or takes it off the queue, and passes
-- the lock on if that makes it possible. Answers whether it was live; the reply to the request for
-- a fresh hold, which counts only then; the look that the caller is asked for; and whether the hold
-- was queued.
local function end_read(hold, gone_ms, request, now)
  local state = read_state(now, hold)
  local holds = state.holds
  local fence = read_fence()
  local held = (tonumber(redis.call('ZSCORE', readers_key, hold)) or 0) > now
  local was_queued
  if not held then
    request = nil
    was_queued = leave(hold, gone_ms)
  end
  local choice
  if not request and state.read_us > now and state.writers_waiting > 0 and
      not (holds.phase or holds.ended) then
    -- Others read on and a writer waits, so it is nobody's turn: spare the look at him.
    choice = {readers = {}, dead_writers = {}, dead_readers = {}}
  else
    choice = choose(request, state, now)
  end
  if held then
    redis.call('ZREM', readers_key, hold)
    if gone_ms ~= '0' then
      redis.call('SET', KEYS[5], '', 'PX', gone_ms)
    end
  end
  expire_readers(now)
  purge(holds)
  local reply, look = settle(choice, state, fence, now)
  return held, reply, look, was_queued
end
