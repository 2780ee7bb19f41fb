-- include: reentrant/common/index_grants

-- add_grant(kind, owner, grant, expiry, token, grants): stores a grant of the owner. The second one
-- creates the zset of expiries, with the first one in it.
local function add_grant(kind, owner, grant, expiry, token, grants)
  local latest = math.max(expiry, grants and grants.count > 0 and grants.latest or 0)
  local ends = math.ceil(latest / 1000)
  if not grants or grants.count == 0 then
    redis.call('HSET', KEYS[1], 'kind', kind, 'owner', owner, grant,
      string.format('%.0f ', expiry) .. token)
    redis.call('PEXPIREAT', KEYS[1], ends)
    return
  end
  if not grants.counted then
    index_grants()
    grants.counted = true
  end
  redis.call('ZADD', grants_key, expiry, grant)
  redis.call('HSET', KEYS[1], grant, string.format('%.0f ', expiry) .. token, 'token', token)
  redis.call('HINCRBY', KEYS[1], 'holds', '1')
  redis.call('PEXPIREAT', KEYS[1], ends)
  redis.call('PEXPIREAT', grants_key, ends)
  grants.latest = latest
end
