-- include: common/time
-- include: reentrant/common/holds
-- include: reentrant/common/purge

-- renew_hold(kind): lets the hold ARGV[1] of a lock of that kind live for ARGV[2] ms from now, and
-- never shortens it. Answers renew's reply.
local function renew_hold(kind)
  local now = now_us()
  local holds = read_holds(now, kind)
  local mine = holds.live[ARGV[1]]
  if mine then
    mine.expiry = math.max(mine.expiry, now + 1000 * ARGV[2])
    holds.latest = math.max(holds.latest, mine.expiry)
  end
  purge(holds)
  if not mine then
    return 'not_held'
  end
  redis.call('PEXPIREAT', KEYS[1], math.ceil(holds.latest / 1000))
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', mine.expiry) .. mine.token)
  return 'held'
end
