-- include: common/leave
-- include: semaphore/common/settle

-- give_back(hold, gone_ms, removed, now): ends a hold, which may have been `removed` just now, or
-- takes it off the queue, and lets in whom that makes room for. Answers whether it was there, and
-- whether it was queued. One that has expired and that nobody has removed yet is there.
local function give_back(hold, gone_ms, removed, now)
  local state = read_state(now)
  local expiry = redis.call('ZSCORE', permits_key, hold)
  if not expiry and not removed then
    local was_queued = leave(hold, gone_ms)
    if state.capacity then
      settle(choose(nil, state, now), state, now)
    end
    return false, was_queued
  end
  if expiry and tonumber(expiry) > now then
    state.used = state.used - weight_of(hold)
  end
  local choice = state.capacity and choose(nil, state, now)
  redis.call('ZREM', permits_key, hold)
  if state.extra then
    forget_weight(hold)
  end
  if gone_ms ~= '0' then
    redis.call('SET', KEYS[5], '', 'PX', gone_ms)
  end
  if choice then
    settle(choice, state, now)
  end
  return true, false
end
