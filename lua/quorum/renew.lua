-- Extends a grant at one node, and never shortens it.
--
-- KEYS   1 to 4 as acquire's; 5 the reservation; 6 the node's run, if there is a restart delay
-- ARGV   1 grant  2 lease_ms  3 'delay_ms run_id', if there is a restart delay
-- reply  'held'; 'young <ms>', which does not count; or 'not_held'
-- include: quorum/common/young
-- include: quorum/common/is_held_by

local delay_ms, run_id = string.match(ARGV[3] or '', '^(%d*) ?(%x*)$')
if not is_held_by(ARGV[1]) then
  return 'not_held'
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local young_ms, refused = young(run_id, delay_ms)
return refused or young_ms > 0 and 'young ' .. young_ms or 'held'
