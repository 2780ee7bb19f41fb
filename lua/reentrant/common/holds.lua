-- include: common/kind
-- include: reentrant/common/holds_key

-- read_holds(now, kind): what KEYS[1], a hash of that kind, says: the `owner`, the `count` of his
-- holds, of them the first that have `expired`, when the last one ends (`latest`), the `token` of
-- the latest, and the read-write lock's `policy` and `phase`. A hold that was always alone is not
-- `counted` there, and its own token is the latest. With a count of 0 nobody holds the lock.
local function read_holds(now, kind)
  local fields = redis.call('HMGET', KEYS[1], 'kind', 'owner', 'holds', 'token', 'policy', 'phase')
  if fields[1] ~= kind and redis.call('EXISTS', KEYS[1]) == 1 then
    error(other_kind(fields[1], kind))
  end
  local holds = {
    owner = fields[2],
    counted = fields[3],
    count = tonumber(fields[3]) or fields[2] and 1 or 0,
    token = fields[4],
    policy = fields[5],
    phase = fields[6],
    latest = 0,
    expired = {},
  }
  if holds.count > 0 then
    local last = holds.counted and redis.call('ZRANGE', holds_key, '-1', '-1', 'WITHSCORES')[2]
    if not last then
      holds.latest = now + 1000 * redis.call('PTTL', KEYS[1])
    elseif tonumber(last) > now then
      holds.latest = tonumber(last)
      holds.expired = redis.call('ZRANGEBYSCORE', holds_key, '-inf', now, 'LIMIT', '0', '64')
    else
      holds.count, holds.ended = 0, true
    end
  end
  return holds
end
