-- include: common/hold_id
-- include: reentrant/common/holds_key

-- index_holds(): makes holds_key anew of what KEYS[1] says: mostly of one grant, but of all if one
-- of the two keys was deleted or evicted. Answers how many there are.
local function index_holds()
  local fields, count = redis.call('HGETALL', KEYS[1]), 0
  redis.call('UNLINK', holds_key)
  for i = 1, #fields, 2 do
    if client_of(fields[i]) then
      redis.call('ZADD', holds_key, string.match(fields[i + 1], '^%d+'), fields[i])
      count = count + 1
    end
  end
  redis.call('HSET', KEYS[1], 'holds', count)
  redis.call('PEXPIRE', holds_key, math.max(1, redis.call('PTTL', KEYS[1])))  -- 0 would remove it
  return count
end
