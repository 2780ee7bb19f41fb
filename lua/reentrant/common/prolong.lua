-- include: reentrant/common/grants_key

-- prolong(grants, mine, expiry): extends a grant to that expiry, and never shortens it. Sets the
-- TTL first, since that needs no memory and lets the writes pass. Sets it again at the end: if a
-- key expires in between and a write creates it again, it must not stay for ever.
local function prolong(grants, mine, expiry)
  mine.expiry = math.max(mine.expiry, expiry)
  grants.latest = math.max(grants.count > 1 and grants.latest or 0, mine.expiry)
  local ends = math.ceil(grants.latest / 1000)
  redis.call('PEXPIREAT', KEYS[1], ends)
  redis.call('HSET', KEYS[1], mine.grant, string.format('%.0f ', mine.expiry) .. mine.token)
  redis.call('PEXPIREAT', KEYS[1], ends)
  if grants.counted then
    redis.call('ZADD', grants_key, mine.expiry, mine.grant)
    redis.call('PEXPIREAT', grants_key, ends)
  end
end
