-- include: reentrant/common/index_holds

-- add_hold(kind, owner, hold, expiry, token, holds): writes down a further grant of the owner, or
-- the first. The second one brings the zset of expiries, and the first into it.
local function add_hold(kind, owner, hold, expiry, token, holds)
  local latest = math.max(expiry, holds and holds.count > 0 and holds.latest or 0)
  local ends = math.ceil(latest / 1000)
  if not holds or holds.count == 0 then
    redis.call('HSET', KEYS[1], 'kind', kind, 'owner', owner, hold,
      string.format('%.0f ', expiry) .. token)
    redis.call('PEXPIREAT', KEYS[1], ends)
    return
  end
  if not holds.counted then
    index_holds()
    holds.counted = true
  end
  redis.call('ZADD', holds_key, expiry, hold)
  redis.call('HSET', KEYS[1], hold, string.format('%.0f ', expiry) .. token, 'token', token)
  redis.call('HINCRBY', KEYS[1], 'holds', '1')
  redis.call('PEXPIREAT', KEYS[1], ends)
  redis.call('PEXPIREAT', holds_key, ends)
  holds.latest = latest
end
