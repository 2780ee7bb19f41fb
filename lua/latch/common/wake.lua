-- include: common/publish_grant
-- include: common/parse_waiter
-- include: common/remove_waiters
-- include: common/window_size

-- wake(latch): tells a window of waiters, live or dead, that the latch is open, and removes them
-- from the queue. Returns the note that makes the caller continue, '' if no waiter is left.
local function wake(latch)
  local grants = redis.call('ZRANGE', KEYS[2], '0', window - 1)
  if not grants[1] then
    return ''
  end
  local records = redis.call('HMGET', KEYS[3], unpack(grants))
  remove_waiters(grants)
  local more = redis.call('EXISTS', KEYS[2]) == 1
  for i, grant in ipairs(grants) do
    local waiter = parse_waiter(grant, records[i])
    -- A waiter for an earlier incarnation learns from its next heartbeat that the latch is gone.
    if waiter and string.match(waiter.owner, '^latch:%d+:(.+)$') == latch.incarnation then
      publish_grant(waiter, '0', '0')
    end
  end
  return more and ' look 1' or ''
end
