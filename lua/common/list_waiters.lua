-- include: common/read_waiter

-- list_waiters(most): { hold, owner, ticket } of each, from the head.
local function list_waiters(most)
  local waiters = {}
  local entries = most > 0 and redis.call('ZRANGE', KEYS[2], 0, most - 1, 'WITHSCORES') or {}
  for i = 1, #entries, 2 do
    local waiter = read_waiter(entries[i])
    waiters[#waiters + 1] = {entries[i], waiter and waiter.owner or '', entries[i + 1]}
  end
  return waiters
end
