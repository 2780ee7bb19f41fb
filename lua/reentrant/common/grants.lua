-- include: reentrant/common/grants_key
-- include: reentrant/common/index_grants

-- read_grants(now, kind, only_reads): returns what KEYS[1], a hash of that kind, stores: the
-- `owner`, the `count` of its grants, a window of those that `expired`, the `latest` expiry, the
-- latest `token`, and the read-write lock's `policy` and `phase`. `counted` is false if the hash
-- has no count, because its only grant was never joined by another. The lock is free if the count
-- is 0. If the two keys disagree, grants_key is rebuilt, or ignored if the script only_reads.
local function read_grants(now, kind, only_reads)
  local fields = redis.pcall('HMGET', KEYS[1], 'kind', 'owner', 'holds', 'token', 'policy', 'phase')
  if fields[1] ~= kind and (fields.err or redis.call('EXISTS', KEYS[1]) == 1) then
-- include: common/kind
    error(other_kind(fields, kind))
  end
  local grants = {
    owner = fields[2],
    counted = fields[3],
    count = tonumber(fields[3]) or fields[2] and 1 or 0,
    token = fields[4],
    policy = fields[5],
    phase = fields[6],
    latest = 0,
    expired = {},
  }
  if grants.counted and redis.call('ZCARD', grants_key) ~= grants.count then
    grants.counted = not only_reads
    grants.count = only_reads and grants.count or index_grants()
  end
  if grants.count > 0 then
    local last = grants.counted and redis.call('ZRANGE', grants_key, '-1', '-1', 'WITHSCORES')[2]
    if not last then
      grants.latest = now + 1000 * redis.call('PTTL', KEYS[1])
    elseif tonumber(last) > now then
      grants.latest = tonumber(last)
      grants.expired = redis.call('ZRANGEBYSCORE', grants_key, '-inf', now, 'LIMIT', '0', '64')
    else
      grants.count, grants.ended = 0, true
    end
  end
  return grants
end
