-- Extends a read grant, as simple/renew does.
--
-- KEYS   1 to 4 as acquire's; 5 to 7 as its last three
-- ARGV   1 grant  2 lease_ms  3 if the client may cache the grant: its channel
-- reply  'held <others>' (1 if a writer waits or writes) or 'not_held'; and notes
-- include: common/time
-- include: reentrant/common/grants
-- include: read_write/common/keys
-- include: read_write/common/others
-- include: read_write/common/expire_readers

local now = now_us()
local grants = read_grants(now, 'read_write/2')
local held = (tonumber(redis.call('ZSCORE', read_grants_key, ARGV[1])) or 0) > now
redis.call('ZCARD', waiting_writers_key)  -- refuses another type before the first write
if held then
  -- This comes first, since it needs no memory.
  redis.call('PEXPIRE', read_grants_key, ARGV[2], 'GT')
  redis.call('ZADD', read_grants_key, 'GT', now + 1000 * ARGV[2], ARGV[1])
end
expire_readers(now)
if not held then
  return 'not_held'
end
local unsubscribed = ARGV[3] and redis.call('PUBSUB', 'NUMSUB', ARGV[3])[2] == 0
return 'held ' .. others(grants) .. (unsubscribed and ' deaf' or '')
