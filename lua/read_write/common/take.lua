-- include: common/queue

-- take_write(bid, token, now, holds): adds a hold to those of its owner, in `holds`.
local function take_write(bid, token, now, holds)
  local expiry = now + 1000 * bid.lease_ms
  if holds.count == 0 and bid.fair then
    redis.call('HSET', KEYS[1], 'policy', 'phase_fair')
  end
  holds.count = holds.count + 1
  holds.latest = math.max(expiry, holds.latest)
  redis.call('HSET', KEYS[1], 'kind', 'read_write', bid.writer, holds.count, bid.hold,
    string.format('%.0f ', expiry) .. token)
  redis.call('PEXPIREAT', KEYS[1], math.ceil(holds.latest / 1000))
end

-- take_read(bid, now): lets a reader in.
local function take_read(bid, now)
  redis.call('ZADD', readers_key, now + 1000 * bid.lease_ms, bid.hold)
  lengthen_ttl(readers_key, bid.lease_ms)
end
