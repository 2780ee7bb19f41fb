-- publish_grant(waiter, token, others): tells a waiter that it owns the lock for its claim. After
-- all else is written.
local function publish_grant(waiter, token, others)
  redis.call('PUBLISH', waiter.channel, 'grant ' .. waiter.hold .. ' ' .. waiter.attempt .. ' ' ..
    token .. ' ' .. waiter.claim_ms .. ' ' .. others .. ' ' .. KEYS[1])
end
