-- read_request(before): what acquire is asked for, of the ARGV that follow ARGV[before]. `names` is
-- the first name of a lock of several.
local function read_request(before)
  local hold = ARGV[before + 1]
  local block, attempt, wait, heartbeat_ms, manual, ticket, claim_ms, listen, channel =
    string.match(ARGV[before + 3], '^(%d+) (%d+) ([0123]) (%d+) ([01]) (%d+) (%d+) ([01]) (%S+)$')
  return {
    hold = hold,
    lease_ms = tonumber(ARGV[before + 2]),
    block = tonumber(block),
    attempt = tonumber(attempt),
    wait = wait == '1' or wait == '2',
    calls = wait == '3',
    names = wait == '2' and KEYS[1] or nil,
    heartbeat_ms = tonumber(heartbeat_ms),
    manual = manual == '1',
    ticket = tonumber(ticket),
    claim_ms = tonumber(claim_ms),
    listen = listen == '1',
    channel = channel,
    owner = ARGV[before + 4] or string.sub(hold, 1, 32),
  }
end
