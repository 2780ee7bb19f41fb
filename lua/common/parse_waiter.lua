-- A waiter's record in KEYS[3], which record_of() writes, is 'asked_us lease_ms amount attempt wait
-- heartbeat_ms manual ticket claim_ms polls channel size owner'. `asked_us` is when the waiter last
-- asked, `polls` is 1 if its channel had no subscriber then, and `size` is the owner's length, so
-- that further words of a later version are ignored. The `wait` of a waiter for several names is 2,
-- that of others 1. After its owner, such a waiter has a `tail`: see invite().

-- parse_waiter(grant, record): returns the fields of a record, nil if there is none.
local function parse_waiter(grant, record)
  local words = '^(%d+) (%d+) (%d+) (%d+) ([12]) (%d+) ([01]) %d+ (%d+) ([01]) (%S+) (%d+) (.*)$'
  local asked_us, lease_ms, amount, attempt, wait, heartbeat_ms, manual, claim_ms, polls, channel,
    size, rest = string.match(record or '', words)
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
    amount = tonumber(amount),
    overdue_us = asked_us + 2500 * heartbeat_ms,
    manual = manual == '1',
    claim_ms = tonumber(claim_ms),
    polls_until_us = polls == '1' and asked_us + 1250000 or 0,
    channel = channel,
    owner = string.sub(rest, 1, tonumber(size)),
  }
end
