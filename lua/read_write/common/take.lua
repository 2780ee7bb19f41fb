-- include: common/queue
-- include: reentrant/common/add_hold
-- include: read_write/common/keys

-- take_write(bid, lease_ms, token, now, holds): adds a grant to those of its owner, in `holds`.
local function take_write(bid, lease_ms, token, now, holds)
  if holds.count == 0 and bid.fair then
    redis.call('HSET', KEYS[1], 'policy', 'phase_fair')
  end
  add_hold('read_write/2', bid.writer, bid.hold, now + 1000 * lease_ms, token, holds)
end

-- take_read(bid, lease_ms, now): lets a reader in.
local function take_read(bid, lease_ms, now)
  redis.call('ZADD', readers_key, now + 1000 * lease_ms, bid.hold)
  lengthen_ttl(readers_key, lease_ms)
end

-- take_reads(waiters, now): lets readers in, each for its claim. Answers the longest of these.
local function take_reads(waiters, now)
  local entries, longest_ms = {}, 0
  for i, waiter in ipairs(waiters) do
    entries[2 * i - 1], entries[2 * i] = now + 1000 * waiter.claim_ms, waiter.hold
    longest_ms = math.max(longest_ms, waiter.claim_ms)
  end
  redis.call('ZADD', readers_key, unpack(entries))
  lengthen_ttl(readers_key, longest_ms)
  return longest_ms
end
