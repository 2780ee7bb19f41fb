-- list_waiters(most, queue_key, from, to): { hold, owner, ticket } of each in a queue, KEYS[2] if
-- it is left out, from the head; or of those between two tickets. And how many tokens, or permits,
-- each wants.
local function list_waiters(most, queue_key, from, to)
  local waiters, holds, blocks = {}, {}, {}
  local entries = most > 0 and redis.call('ZRANGEBYSCORE', queue_key or KEYS[2], from or '-inf',
    to or '+inf', 'WITHSCORES', 'LIMIT', 0, most) or {}
  for i = 1, #entries, 2 do
    holds[#holds + 1] = entries[i]
  end
  for i, record in ipairs(holds[1] and redis.call('HMGET', KEYS[3], unpack(holds)) or {}) do
    -- A few words of what parse_waiter() reads.
    local block, size, rest = string.match(record or '',
      '^%d+ %d+ (%d+) %d+ [12] %d+ [01] %d+ %d+ [01] %S+ (%d+) (.*)$')
    waiters[i] = {holds[i], size and string.sub(rest, 1, size) or '', entries[2 * i]}
    blocks[i] = tonumber(block) or 1
  end
  return waiters, blocks
end
