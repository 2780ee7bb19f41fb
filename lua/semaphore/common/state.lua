-- include: semaphore/common/settings

-- permits_beyond_one(grants): returns how many permits these grants have beyond one each. At most
-- 256 grants.
local function permits_beyond_one(grants)
  local beyond_one = 0
  if grants[1] then
    for _, amount in ipairs(redis.call('HMGET', KEYS[1], unpack(grants))) do
      beyond_one = beyond_one + (amount and amount - 1 or 0)
    end
  end
  return beyond_one
end

-- read_state(now, most): returns the settings; how many permits are `used` by live grants; the
-- first grants that have `expired`, `most` or a window of them; and `more` if there are more, whose
-- permits beyond one each still count as used. If all grants have expired with their key, sets
-- `void`: the permits in the hash no longer count. Refuses other types and kinds before the first
-- write.
local function read_state(now, most)
  local state = read_settings()
  local grants = redis.call('ZCARD', permits_key)
  local expired = redis.call('ZCOUNT', permits_key, '-inf', now)
  state.used = grants - expired
  state.expired = {}
  if state.extra and grants == 0 then
    state.extra, state.void = nil, true
  elseif expired > 0 then
    state.expired = redis.call('ZRANGEBYSCORE', permits_key, '-inf', now, 'LIMIT', '0', most or 64)
    state.more = state.extra and expired > #state.expired
  end
  if state.extra then
    state.used = state.used + state.extra - permits_beyond_one(state.expired)
  end
  return state
end
