-- include: reentrant/common/holds_key

-- prolong(holds, mine, expiry): lets a hold live until then, and never shortens it.
local function prolong(holds, mine, expiry)
  mine.expiry = math.max(mine.expiry, expiry)
  holds.latest = math.max(holds.count > 1 and holds.latest or 0, mine.expiry)
  redis.call('PEXPIREAT', KEYS[1], math.ceil(holds.latest / 1000))
  redis.call('HSET', KEYS[1], mine.hold, string.format('%.0f ', mine.expiry) .. mine.token)
  if holds.counted then
    redis.call('PEXPIREAT', holds_key, math.ceil(holds.latest / 1000))
    redis.call('ZADD', holds_key, mine.expiry, mine.hold)
  end
end
