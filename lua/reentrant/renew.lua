-- As simple/renew.
--
-- KEYS   1 to 4 as acquire's, and its last
-- include: reentrant/common/renew_grant
return renew_grant('reentrant/2')
