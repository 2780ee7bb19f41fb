-- include: common/time
-- include: reentrant/common/holds
-- include: reentrant/common/find_hold
-- include: reentrant/common/purge
-- include: reentrant/common/prolong

-- renew_hold(kind): lets the hold ARGV[1] of a lock of that kind live for ARGV[2] ms from now, and
-- never shortens it. Answers renew's reply.
local function renew_hold(kind)
  local now = now_us()
  local holds = read_holds(now, kind)
  local mine = find_hold(ARGV[1], now)
  purge(holds)
  if not mine then
    return 'not_held'
  end
  prolong(holds, mine, now + 1000 * ARGV[2])
  return 'held'
end
