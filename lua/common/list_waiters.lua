-- include: common/read_waiter

-- list_waiters(most, queue_key, from, to): { hold, owner, ticket } of each in a queue, KEYS[2] if
-- it is left out, from the head; or of those between two tickets.
local function list_waiters(most, queue_key, from, to)
  local waiters = {}
  local entries = most > 0 and redis.call('ZRANGEBYSCORE', queue_key or KEYS[2], from or '-inf',
    to or '+inf', 'WITHSCORES', 'LIMIT', 0, most) or {}
  for i = 1, #entries, 2 do
    local waiter = read_waiter(entries[i])
    waiters[#waiters + 1] = {entries[i], waiter and waiter.owner or '', entries[i + 1]}
  end
  return waiters
end
