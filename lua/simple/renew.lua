-- Extends a grant, and never shortens it. Makes a claim the lease.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 grant  2 lease_ms; of a grant that may be kept: 3 its client's channel  4 the last token
--        that is known to be its own
-- reply  'held', of one that may be kept 'held <waiters> <last token>', or 'not_held'; and notes
if redis.call('GETRANGE', KEYS[1], '0', '63') ~= ARGV[1] then
  return 'not_held'
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if not ARGV[3] then
  return 'held'
end

-- include: common/time
-- include: common/stays
local now = now_us()
return stays(now + 1000 * redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]), ARGV[3], now)
