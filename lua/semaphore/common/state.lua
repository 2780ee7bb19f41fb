-- include: semaphore/common/settings

-- weights_beyond_one(grants): how many permits they have beyond one each. 256 grants at most.
local function weights_beyond_one(grants)
  local beyond_one = 0
  if grants[1] then
    for _, weight in ipairs(redis.call('HMGET', KEYS[1], unpack(grants))) do
      beyond_one = beyond_one + (weight and weight - 1 or 0)
    end
  end
  return beyond_one
end

-- read_state(now, most): the settings; how many permits are `used` by live grants; the first grants
-- that have `lapsed`, `most` or a window of them; and whether there are `more`, whose permits
-- beyond one each still count as used. Refuses other types and kinds before the first write.
local function read_state(now, most)
  local state = read_settings()
  local grants = redis.call('ZCARD', permits_key)
  local expired = redis.call('ZCOUNT', permits_key, '-inf', now)
  state.used = grants - expired
  state.lapsed = {}
  if state.extra and grants == 0 then
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
