-- include: reentrant/common/holds_key

-- purge(holds): removes the grants that have ended: all of them, or, of many, a part. The key then
-- expires with the last that lives.
local function purge(holds)
  if holds.ended then
    redis.call('UNLINK', KEYS[1], holds_key)
    holds.ended, holds.count, holds.expired, holds.leaving = nil, 0, {}, nil
    return
  end
  local gone = holds.expired
  if holds.leaving then
    gone[#gone + 1] = holds.leaving.hold
  end
  if gone[1] then
    redis.call('ZREM', holds_key, unpack(gone))
    local removed = redis.call('HDEL', KEYS[1], unpack(gone))
    redis.call('HINCRBY', KEYS[1], 'holds', -removed)
    redis.call('PEXPIREAT', KEYS[1], math.ceil(holds.latest / 1000))  -- last: see prolong()
    redis.call('PEXPIREAT', holds_key, math.ceil(holds.latest / 1000))
    holds.expired, holds.leaving = {}, nil
  end
end
