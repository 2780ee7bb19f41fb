-- read_request(before): parses acquire's ARGV, which follow ARGV[before]. `names` is the first name
-- of a lock of several names.
local function read_request(before)
  local grant = ARGV[before + 1]
  local block, attempt, wait, heartbeat_ms, manual, ticket, claim_ms, listen, channel =
    string.match(ARGV[before + 3], '^(%d+) (%d+) ([0123]) (%d+) ([01]) (%d+) (%d+) ([01]) (%S+)$')
  return {
    grant = grant,
    lease_ms = tonumber(ARGV[before + 2]),
    block = tonumber(block),
    attempt = tonumber(attempt),
    wait = wait == '1' or wait == '2',
    recalls = wait == '3',
    names = wait == '2' and KEYS[1] or nil,
    heartbeat_ms = tonumber(heartbeat_ms),
    manual = manual == '1',
    ticket = tonumber(ticket),
    claim_ms = tonumber(claim_ms),
    listen = listen == '1',
    channel = channel,
    owner = ARGV[before + 4] or string.sub(grant, 1, 32),
  }
end
