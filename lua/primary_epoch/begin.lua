-- Before anything else that a client says to a server over a new connection: if the server was
-- promoted, the quarantine begins, whatever the client's other commands, composed before, believe.
--
-- KEYS   1 the key of the primary epoch
-- ARGV   1 nothing  2 quarantine_ms
-- reply  how much longer it lasts, in ms
-- include: common/quarantine
local quarantined_ms, refused = quarantine(false)
return refused or quarantined_ms
