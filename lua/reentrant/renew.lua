-- Extends a grant, and never shortens it. Makes a claim the lease.
--
-- KEYS   1 to 4 as acquire's, and its last
-- ARGV   1 grant  2 lease_ms; of a grant that may be kept: 3 its client's channel  4 the last token
--        that is known to be its own
-- reply  'held', of one that may be kept 'held <waiters> <last token>', or 'not_held'; and notes
-- include: reentrant/common/renew_hold
return renew_hold('reentrant/2')
