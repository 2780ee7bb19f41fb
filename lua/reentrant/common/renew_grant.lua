-- include: common/time
-- include: reentrant/common/grants
-- include: reentrant/common/find_grant
-- include: reentrant/common/purge
-- include: reentrant/common/prolong
-- include: common/renew_cacheable

-- renew_grant(kind, queue_key): extends the grant ARGV[1] to ARGV[2] ms from now, and never
-- shortens it. Returns renew's reply. A client that may cache the grant is told how many wait in
-- KEYS[2] and in the other queue, if there is one.
local function renew_grant(kind, queue_key)
  local now = now_us()
  local grants = read_grants(now, kind)
  local mine = find_grant(ARGV[1], now)
  purge(grants)
  if not mine then
    return 'not_held'
  end
  prolong(grants, mine, now + 1000 * ARGV[2])
  if not ARGV[3] then
    return 'held'
  end
  local waiting = redis.call('ZCARD', KEYS[2]) + (queue_key and redis.call('ZCARD', queue_key) or 0)
  return renew_cacheable(mine.expiry, waiting, ARGV[3], now)
end
