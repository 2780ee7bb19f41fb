-- As simple/renew, for a write grant.
--
-- KEYS   1 to 4 as acquire's; 5 to 7 as its last three
-- include: reentrant/common/renew_grant
return renew_grant('read_write/2', KEYS[#KEYS - 1])
