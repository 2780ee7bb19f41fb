-- Ends a grant of a Redisson lock, and tells the waiters of all clients.
--
-- KEYS   1 to 6 as in lua/README.md; 5 is also Redisson's latch of unlock requests;
--        7 redisson.yield; 8 rw.readers
-- ARGV   1 grant  2 'last_used last_reserved gone_ms'  3 owner  4.. nothing, or all ARGV of acquire
--        for a fresh grant; the last as acquire's
-- reply  'released', 'released ' and acquire's reply for the fresh grant, or 'not_held'
-- include: redisson_lock/common/release
return release()
