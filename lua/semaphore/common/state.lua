-- include: semaphore/common/settings

-- weight_of(hold): how many permits it has.
local function weight_of(hold)
  return tonumber(redis.call('HGET', KEYS[1], hold) or 1)
end

-- read_state(now, most): the settings, and how many permits are `used` by holds that live, how many
-- holds have `expired`, and the `lapsed` ones, those among them that may have more than one permit:
-- the first `most`, where that is said, and then what others have beyond one each counts as used.
-- Refuses other types and kinds, before anything is written.
local function read_state(now, most)
  local state = read_settings()
  local holds = redis.call('ZCARD', permits_key)
  state.expired = redis.call('ZCOUNT', permits_key, '-inf', now)
  state.used = holds - state.expired
  state.lapsed = {}
  if state.extra and holds == 0 then
    state.void = true  -- the weights of holds that expired with their key
  elseif state.extra then
    state.used = state.used + state.extra
    if state.expired > 0 then
      state.lapsed = redis.call('ZRANGEBYSCORE', permits_key, '-inf', now, 'LIMIT', 0,
        most or -1)
    end
    for _, hold in ipairs(state.lapsed) do
      state.used = state.used - weight_of(hold) + 1
    end
  end
  return state
end
