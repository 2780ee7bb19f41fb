-- read_waiter(hold): its record in KEYS[3]; nil where there is none.
local function read_waiter(hold)
  local record = redis.call('HGET', KEYS[3], hold)
  if not record then
    return nil
  end
  local asked_us, lease_ms, block, attempt, heartbeat_ms, manual, channel, owner =
    string.match(record, '^(%d+) (%d+) (%d+) (%d+) 1 (%d+) ([01]) %d+ (%S+) (.*)$')
  return asked_us and {
    hold = hold,
    attempt = tonumber(attempt),
    lease_ms = tonumber(lease_ms),
    block = tonumber(block),
    overdue_us = asked_us + 2500 * heartbeat_ms,
    manual = manual == '1',
    channel = channel,
    owner = owner,
  }
end
