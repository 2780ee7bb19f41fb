-- include: common/kind
-- include: reentrant/common/holds_key
-- include: reentrant/common/index_holds

-- read_holds(now, kind, only_reads): what KEYS[1], a hash of that kind, says: the `owner`, the
-- `count` of its grants, of them the first that have `expired`, when the last one ends (`latest`),
-- the `token` of the latest, and the read-write lock's `policy` and `phase`. A grant that was
-- always alone is not `counted` there, and its own token is the latest. With a count of 0 the lock
-- is free. If holds_key has not what is counted, it is made anew, or, by one that only_reads,
-- ignored.
local function read_holds(now, kind, only_reads)
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
  if holds.counted and redis.call('ZCARD', holds_key) ~= holds.count then
    holds.counted = not only_reads
    holds.count = only_reads and holds.count or index_holds()
  end
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
