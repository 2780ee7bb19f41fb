-- touch(latch): lets both keys live for ttl_ms from now, so that no id is forgotten before the
-- count. Needs no memory, and lets the writes that follow it pass if memory is full.
local function touch(latch)
  redis.call('PEXPIRE', KEYS[1], latch.ttl_ms)
  redis.call('PEXPIRE', counted_key, latch.ttl_ms)
end
