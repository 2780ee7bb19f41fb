-- include: common/grant_id
-- include: reentrant/common/grants_key

-- index_grants(): rebuilds grants_key from KEYS[1]. Usually there is one grant; there are more if
-- one of the two keys was deleted or evicted. Returns their number.
local function index_grants()
  local fields, count = redis.call('HGETALL', KEYS[1]), 0
  redis.call('UNLINK', grants_key)
  for i = 1, #fields, 2 do
    if client_of(fields[i]) then
      redis.call('ZADD', grants_key, string.match(fields[i + 1], '^%d+'), fields[i])
      count = count + 1
    end
  end
  redis.call('HSET', KEYS[1], 'holds', count)
  redis.call('PEXPIRE', grants_key, math.max(1, redis.call('PTTL', KEYS[1])))  -- 0 would remove it
  return count
end
