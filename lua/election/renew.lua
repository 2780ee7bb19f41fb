-- Extends a term, and never shortens it. Turns a claim into the lease.
--
-- KEYS   1 to 4 as acquire's; then the leader's record, and the observers
-- ARGV   1 grant  2 lease_ms
-- reply  'held' or 'not_held'
-- include: simple/common/holder
if holder ~= ARGV[1] then
  return 'not_held'
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[#KEYS - 1], ARGV[2])
end
return 'held'
