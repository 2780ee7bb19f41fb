-- publish_grant(waiter, token, others): tells a waiter that it owns the lock for its claim. Call
-- this after all writes.
local function publish_grant(waiter, token, others)
  redis.call('PUBLISH', waiter.channel, 'grant ' .. waiter.grant .. ' ' .. waiter.attempt .. ' ' ..
    token .. ' ' .. waiter.claim_ms .. ' ' .. others .. ' ' .. KEYS[1])
end
