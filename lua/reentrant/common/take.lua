-- take(request, token, now, holds): adds a hold to those of its owner: `holds`, or none where the
-- lock is free.
local function take(request, token, now, holds)
  local expiry = now + 1000 * request.lease_ms
  redis.call('HSET', KEYS[1], 'kind', 'reentrant', request.owner, holds and holds.count + 1 or 1,
    request.hold, string.format('%.0f ', expiry) .. token)
  redis.call('PEXPIREAT', KEYS[1], math.ceil(math.max(expiry, holds and holds.latest or 0) / 1000))
end
