-- include: common/owner_of

-- list_waiters(most, queue_key, from, to): { grant, owner, ticket } of each in a queue, KEYS[2] if
-- it is left out, from the head; or of those between two tickets. And what each wants.
local function list_waiters(most, queue_key, from, to)
  local waiters, holds, blocks = {}, {}, {}
  local entries = most > 0 and redis.call('ZRANGEBYSCORE', queue_key or KEYS[2], from or '-inf',
    to or '+inf', 'WITHSCORES', 'LIMIT', 0, most) or {}
  for i = 1, #entries, 2 do
    holds[#holds + 1] = entries[i]
  end
  for i, record in ipairs(holds[1] and redis.call('HMGET', KEYS[3], unpack(holds)) or {}) do
    local owner
    owner, blocks[i] = owner_of(record)
    waiters[i] = {holds[i], owner, entries[2 * i]}
  end
  return waiters, blocks
end
