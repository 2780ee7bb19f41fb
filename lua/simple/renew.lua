-- Extends a hold, and never shortens it. Makes a claim the lease.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 hold  2 lease_ms
-- reply  'held' or 'not_held'
if redis.call('GETRANGE', KEYS[1], '0', '63') ~= ARGV[1] then
  return 'not_held'
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 'held'
