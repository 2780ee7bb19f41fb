-- parse_waiter(hold, record): what a record in KEYS[3] says; nil if there is none. The owner's
-- length stands before it, so that words behind it, of a later version, are ignored.
-- One who waits for several names has 2 in the place of the 1, and a `tail` behind the owner: see
-- nudge().
local function parse_waiter(hold, record)
  local asked_us, lease_ms, block, attempt, wait, heartbeat_ms, manual, claim_ms, polls, channel,
    size, rest = string.match(record or '',
      '^(%d+) (%d+) (%d+) (%d+) ([12]) (%d+) ([01]) %d+ (%d+) ([01]) (%S+) (%d+) (.*)$')
  local tail = wait == '2' and string.sub(rest, size + 1) or nil
  local nudged_us, first
  if tail then
    nudged_us, first = string.match(tail, '^ (%d+) (.*)$')
  end
  return asked_us and {
    hold = hold,
    asked_us = tonumber(asked_us),
    record = record,
    tail = tail,
    nudged_us = tonumber(nudged_us),
    first = first,
    attempt = tonumber(attempt),
    lease_ms = tonumber(lease_ms),
    block = tonumber(block),
    overdue_us = asked_us + 2500 * heartbeat_ms,
    manual = manual == '1',
    claim_ms = tonumber(claim_ms),
    polls_until_us = polls == '1' and asked_us + 1250000 or 0,
    channel = channel,
    owner = string.sub(rest, 1, tonumber(size)),
  }
end
