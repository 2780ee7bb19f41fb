-- include: common/leave
-- include: semaphore/common/settle

-- give_back(hold, gone_ms, removed, now): ends a grant, which may have been `removed` just now, or
-- takes it off the queue, and lets in the waiters that this makes room for. Answers whether it was
-- there, whether it was queued, and the look that the caller is asked for. One that has expired,
-- and that no script has removed yet, is there.
local function give_back(hold, gone_ms, removed, now)
  local state = read_state(now)
  local expiry = redis.call('ZSCORE', permits_key, hold)
  local held, was_queued = removed or expiry and true, leave(hold, gone_ms)
  if expiry and tonumber(expiry) > now then
    state.used = state.used - 1 - (state.extra and weights_beyond_one({hold}) or 0)
  end
  local choice = state.capacity and choose(nil, state, now)
  if held then
    redis.call('ZREM', permits_key, hold)
    if state.extra then
      forget_weights({hold})
    end
  end
  local look = ''
  if choice then
    look = select(2, settle(choice, state, now))
  end
  return held, was_queued, look
end
