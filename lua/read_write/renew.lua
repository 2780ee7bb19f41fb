-- Extends a write grant, as simple/renew does.
--
-- KEYS   1 to 4 as acquire's; 5 to 7 as its last three
-- ARGV   as simple/renew's
-- reply  as simple/renew's
-- include: reentrant/common/renew_grant
local waiting_writers_key = KEYS[#KEYS - 1]  -- see read_write/common/keys
return renew_grant('read_write/2', waiting_writers_key)
