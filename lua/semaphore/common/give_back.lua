-- include: common/leave
-- include: semaphore/common/settle

-- give_back(grant, gone_ms, removed, now): ends a grant, which may have been `removed` just now, or
-- removes it from the queue, and admits the waiters for which this makes room. Returns true if it
-- existed (even if it has expired), true if it was queued, and the handover check as a note.
local function give_back(grant, gone_ms, removed, now)
  local state = read_state(now)
  local expiry = redis.call('ZSCORE', permits_key, grant)
  local held, was_queued = removed or expiry and true, leave(grant, gone_ms)
  if expiry and tonumber(expiry) > now then
    state.used = state.used - 1 - (state.extra and permits_beyond_one({grant}) or 0)
  end
  local choice = state.capacity and choose(nil, state, now)
  if held then
    redis.call('ZREM', permits_key, grant)
    if state.extra then
      forget_amounts({grant})
    end
  end
  local check = ''
  if choice then
    check = select(2, settle(choice, state, now))
  end
  return held, was_queued, check
end
