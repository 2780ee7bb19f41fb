-- The first script on a new connection. If the server was promoted, the quarantine begins, even if
-- the client's other commands still name another primary epoch.
--
-- KEYS   1 the key of the primary epoch
-- ARGV   1 nothing  2 quarantine_ms
-- reply  how much longer the quarantine lasts, in ms
-- include: common/quarantine
local quarantined_ms, refused = quarantine(true)
return refused or quarantined_ms
