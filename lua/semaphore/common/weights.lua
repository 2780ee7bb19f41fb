-- include: semaphore/common/state
-- include: semaphore/common/touch

-- forget_weights(grants): removes the stored permit counts of these grants.
local function forget_weights(grants)
  local beyond_one = weights_beyond_one(grants)
  if beyond_one > 0 then
    redis.call('HDEL', KEYS[1], unpack(grants))
    if redis.call('HINCRBY', KEYS[1], 'extra', -beyond_one) <= 0 then
      redis.call('HDEL', KEYS[1], 'extra')
    end
  end
end

-- forget_all_weights(state): does this for all grants, however many, by creating the hash again.
local function forget_all_weights(state)
  redis.call('UNLINK', KEYS[1])
  if state.capacity then
    redis.call('HSET', KEYS[1], 'kind', 'semaphore/2', 'capacity', state.shown, 'set_by',
      state.set_by, 'until', string.format('%.0f', state.until_us))
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', state.until_us / 1000))
  end
  state.extra, state.void = nil, nil
end

-- purge(state): removes expired grants, a window at a time.
local function purge(state)
  if state.lapsed[1] then
    redis.call('ZREM', permits_key, unpack(state.lapsed))
    if state.extra then
      forget_weights(state.lapsed)
    end
  end
  if state.void then
    forget_all_weights(state)
  end
end
