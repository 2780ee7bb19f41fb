-- include: common/owner_of

-- list_waiters(most, queue_key, from, to): returns { grant, owner, ticket } of the first waiters in
-- a queue (KEYS[2] by default), or of those between two tickets. Then returns how many tokens or
-- permits each asks for.
local function list_waiters(most, queue_key, from, to)
  local waiters, grants, amounts = {}, {}, {}
  local entries = most > 0 and redis.call('ZRANGEBYSCORE', queue_key or KEYS[2], from or '-inf',
    to or '+inf', 'WITHSCORES', 'LIMIT', 0, most) or {}
  for i = 1, #entries, 2 do
    grants[#grants + 1] = entries[i]
  end
  for i, record in ipairs(grants[1] and redis.call('HMGET', KEYS[3], unpack(grants)) or {}) do
    local owner
    owner, amounts[i] = owner_of(record)
    waiters[i] = {grants[i], owner, entries[2 * i]}
  end
  return waiters, amounts
end
