-- touch(latch): both keys stay for its ttl_ms from now. Who counted is never forgotten before the
-- count is. Needs no memory, and so opens the way for what follows.
local function touch(latch)
  redis.call('PEXPIRE', KEYS[1], latch.ttl_ms)
  redis.call('PEXPIRE', counted_key, latch.ttl_ms)
end
