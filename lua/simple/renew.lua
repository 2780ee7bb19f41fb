-- Extends a grant, and never shortens it. Turns a claim into the lease.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 grant  2 lease_ms; if the client may cache the grant: 3 its channel  4 the last token
--        that it knows to be the grant's; if the grant has no token yet: 3 'token'
-- reply  'held' or 'not_held'; with a channel 'held <waiters> <last token>'; with 'token' 'held 0
--        <token>'; and notes
-- include: simple/common/unflag
if holder ~= ARGV[1] then
  return 'not_held'
end
-- Even if this changes nothing, it lets the token's write pass if memory is full.
redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
if not ARGV[3] then
  return 'held'
end

-- include: common/time
-- include: common/renew_cacheable
local now = now_us()
if ARGV[3] == 'token' then
  return 'held 0 ' .. reserve_tokens(read_fence(), 1, now)
end
local expiry_us = now + 1000 * redis.call('PTTL', KEYS[1])
return renew_cacheable(expiry_us, redis.call('ZCARD', KEYS[2]), ARGV[3], now)
