-- The first script on a new connection, if there is a restart delay: if the server was started, the
-- delay begins, whatever run of the server the client's other commands still name.
--
-- KEYS   1 the key of the node's run
-- ARGV   1 delay_ms
-- reply  for how many more ms the node has no vote
-- include: quorum/common/young
local young_ms, refused = young('', ARGV[1])
return refused or young_ms
