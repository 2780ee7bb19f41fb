-- include: common/publish_grant
-- include: common/parse_waiter
-- include: common/remove_waiters
-- include: common/window_size

-- wake(latch): tells the first of those who wait, live or not, that the latch is open: a window of
-- them. They leave the queue. Answers the note by which the caller goes on, '' if none is left.
local function wake(latch)
  local holds = redis.call('ZRANGE', KEYS[2], '0', window - 1)
  if not holds[1] then
    return ''
  end
  local records = redis.call('HMGET', KEYS[3], unpack(holds))
  remove_waiters(holds)
  local more = redis.call('EXISTS', KEYS[2]) == 1
  for i, hold in ipairs(holds) do
    local waiter = parse_waiter(hold, records[i])
    -- One that waits for an earlier incarnation learns by its next heartbeat that it has vanished.
    if waiter and string.match(waiter.owner, '^latch:%d+:(.+)$') == latch.incarnation then
      publish_grant(waiter, '0', '0')
    end
  end
  return more and ' look 1' or ''
end
