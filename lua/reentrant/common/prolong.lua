-- include: reentrant/common/holds_key

-- prolong(holds, mine, expiry): lets a grant live until then, and never shortens it. A TTL comes
-- first, since it is no matter of memory, and opens the way for what is; and last, as it removes a
-- key whose time is over meanwhile, which the next write would make anew, to stay for ever.
local function prolong(holds, mine, expiry)
  mine.expiry = math.max(mine.expiry, expiry)
  holds.latest = math.max(holds.count > 1 and holds.latest or 0, mine.expiry)
  local ends = math.ceil(holds.latest / 1000)
  redis.call('PEXPIREAT', KEYS[1], ends)
  redis.call('HSET', KEYS[1], mine.hold, string.format('%.0f ', mine.expiry) .. mine.token)
  redis.call('PEXPIREAT', KEYS[1], ends)
  if holds.counted then
    redis.call('ZADD', holds_key, mine.expiry, mine.hold)
    redis.call('PEXPIREAT', holds_key, ends)
  end
end
