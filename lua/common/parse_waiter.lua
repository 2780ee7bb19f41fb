-- parse_waiter(grant, record): the fields of a record in KEYS[3], nil for none. The owner's length
-- precedes the owner, so further words of a later version are ignored. A waiter for several names
-- has a 2 in place of the 1 and a `tail` after the owner: see invite().
local function parse_waiter(grant, record)
  local asked_us, lease_ms, block, attempt, wait, heartbeat_ms, manual, claim_ms, polls, channel,
    size, rest = string.match(record or '',
      '^(%d+) (%d+) (%d+) (%d+) ([12]) (%d+) ([01]) %d+ (%d+) ([01]) (%S+) (%d+) (.*)$')
  local tail = wait == '2' and string.sub(rest, size + 1) or nil
  local invited_us, first
  if tail then
    invited_us, first = string.match(tail, '^ (%d+) (.*)$')
  end
  return asked_us and {
    grant = grant,
    asked_us = tonumber(asked_us),
    record = record,
    tail = tail,
    invited_us = tonumber(invited_us),
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
