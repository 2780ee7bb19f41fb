-- include: common/time
-- include: reentrant/common/holds
-- include: reentrant/common/find_hold
-- include: reentrant/common/purge
-- include: reentrant/common/prolong
-- include: common/stays

-- renew_hold(kind, queue_key): lets the grant ARGV[1] of a lock of that kind live for ARGV[2] ms
-- from now, and never shortens it. Answers renew's reply; one that may be kept is told of those who
-- wait, in KEYS[2] and the other queue, if there is one.
local function renew_hold(kind, queue_key)
  local now = now_us()
  local holds = read_holds(now, kind)
  local mine = find_hold(ARGV[1], now)
  purge(holds)
  if not mine then
    return 'not_held'
  end
  prolong(holds, mine, now + 1000 * ARGV[2])
  if not ARGV[3] then
    return 'held'
  end
  local waiting = redis.call('ZCARD', KEYS[2]) + (queue_key and redis.call('ZCARD', queue_key) or 0)
  return stays(mine.expiry, waiting, ARGV[3], now)
end
