-- The first script on a new connection if there is a restart delay. If the server has restarted,
-- the delay begins now, even if later commands still name the previous run.
--
-- KEYS   1 the key of the node's run
-- ARGV   1 delay_ms
-- reply  for how many more ms the node has no vote
-- include: quorum/common/young
local young_ms, refused = young('', ARGV[1], true)
return refused or young_ms
