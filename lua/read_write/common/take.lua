-- include: common/queue
-- include: reentrant/common/add_grant
-- include: read_write/common/keys

-- take_write(request, lease_ms, token, now, grants): adds a grant to those of its owner, in
-- `grants`.
local function take_write(request, lease_ms, token, now, grants)
  if grants.count == 0 and request.fair then
    redis.call('HSET', KEYS[1], 'policy', 'phase_fair')
  end
  add_grant('read_write/2', request.writer, request.grant, now + 1000 * lease_ms, token, grants)
end

-- take_read(request, lease_ms, now): lets a reader in.
local function take_read(request, lease_ms, now)
  redis.call('ZADD', readers_key, now + 1000 * lease_ms, request.grant)
  lengthen_ttl(readers_key, lease_ms)
end

-- take_reads(waiters, now): lets readers in, each for its claim. Returns the longest claim.
local function take_reads(waiters, now)
  local entries, longest_ms = {}, 0
  for i, waiter in ipairs(waiters) do
    entries[2 * i - 1], entries[2 * i] = now + 1000 * waiter.claim_ms, waiter.grant
    longest_ms = math.max(longest_ms, waiter.claim_ms)
  end
  redis.call('ZADD', readers_key, unpack(entries))
  lengthen_ttl(readers_key, longest_ms)
  return longest_ms
end
