-- read_request(before): parses acquire's ARGV, which follow ARGV[before]. The third of them is
-- 'amount attempt wait heartbeat_ms manual ticket claim_ms listen channel'. `amount` is how many
-- tokens the grant reserves or, for a semaphore, how many permits it has. `names` is the first name
-- of a lock of several names.
local function read_request(before)
  local words = '^(%d+) (%d+) ([0123]) (%d+) ([01]) (%d+) (%d+) ([01]) (%S+)$'
  local grant = ARGV[before + 1]
  local amount, attempt, wait, heartbeat_ms, manual, ticket, claim_ms, listen, channel =
    string.match(ARGV[before + 3], words)
  -- What happens to a request that is not granted. With '0' it is refused.
  local queued, queued_at_all_names, refused_with_recall = '1', '2', '3'
  return {
    grant = grant,
    lease_ms = tonumber(ARGV[before + 2]),
    amount = tonumber(amount),
    attempt = tonumber(attempt),
    wait = wait == queued or wait == queued_at_all_names,
    recalls = wait == refused_with_recall,
    names = wait == queued_at_all_names and KEYS[1] or nil,
    heartbeat_ms = tonumber(heartbeat_ms),
    manual = manual == '1',
    ticket = tonumber(ticket),
    claim_ms = tonumber(claim_ms),
    listen = listen == '1',
    channel = channel,
    owner = ARGV[before + 4] or string.sub(grant, 1, 32),
  }
end
