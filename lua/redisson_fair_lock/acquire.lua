-- Grants a Redisson fair lock (RFairLock) to the first waiter, and queues the others.
--
-- KEYS   1 the lock: a hash { grant: 1 }; 2 to 5 as in lua/README.md, of which 2 and 3 are
--        Redisson's queue; 6 redisson.yield (unused); 7 rw.readers; 8 redisson.alive
-- ARGV   1 to 4 as in lua/README.md; the last: 'listens permits wait_timeout_ms'
-- reply  as in lua/README.md, with a note, without a position
-- include: redisson_fair_lock/common/acquire
return acquire(ARGV[1], ARGV[2], ARGV[3], KEYS[5])
