-- include: semaphore/common/settings

-- weights_beyond_one(holds): how many permits they have beyond one each: 256 of them at most.
local function weights_beyond_one(holds)
  local beyond_one = 0
  if holds[1] then
    for _, weight in ipairs(redis.call('HMGET', KEYS[1], unpack(holds))) do
      beyond_one = beyond_one + (weight and weight - 1 or 0)
    end
  end
  return beyond_one
end

-- read_state(now, most): the settings; how many permits are `used` by grants that live; the first
-- grants that have `lapsed`, `most` or a window of them; and whether there are `more`, of which
-- what they have beyond one permit each still counts as used. Refuses other types and kinds, before
-- anything is written.
local function read_state(now, most)
  local state = read_settings()
  local holds = redis.call('ZCARD', permits_key)
  local expired = redis.call('ZCOUNT', permits_key, '-inf', now)
  state.used = holds - expired
  state.lapsed = {}
  if state.extra and holds == 0 then
    state.extra, state.void = nil, true  -- the weights of grants that expired with their key
  elseif expired > 0 then
    state.lapsed = redis.call('ZRANGEBYSCORE', permits_key, '-inf', now, 'LIMIT', '0', most or 64)
    state.more = state.extra and expired > #state.lapsed
  end
  if state.extra then
    state.used = state.used + state.extra - weights_beyond_one(state.lapsed)
  end
  return state
end
