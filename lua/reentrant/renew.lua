-- Extends a grant, as simple/renew does.
--
-- KEYS   1 to 4 as acquire's, and its last
-- ARGV   as simple/renew's
-- reply  as simple/renew's
-- include: reentrant/common/renew_grant
return renew_grant('reentrant/2')
