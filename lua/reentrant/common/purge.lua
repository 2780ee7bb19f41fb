-- include: reentrant/common/grants_key

-- purge(grants): removes one window of grants that have ended. The key then expires with the last
-- live grant.
local function purge(grants)
  if grants.ended then
    redis.call('UNLINK', KEYS[1], grants_key)
    grants.ended, grants.count, grants.expired, grants.leaving = nil, 0, {}, nil
    return
  end
  local gone = grants.expired
  if grants.leaving then
    gone[#gone + 1] = grants.leaving.grant
  end
  if gone[1] then
    redis.call('ZREM', grants_key, unpack(gone))
    local removed = redis.call('HDEL', KEYS[1], unpack(gone))
    redis.call('HINCRBY', KEYS[1], 'holds', -removed)
    redis.call('PEXPIREAT', KEYS[1], math.ceil(grants.latest / 1000))  -- last: see prolong()
    redis.call('PEXPIREAT', grants_key, math.ceil(grants.latest / 1000))
    grants.expired, grants.leaving = {}, nil
  end
end
