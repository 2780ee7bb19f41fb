-- Grants a Redisson lock (RLock) if it is free, or says when to ask again.
--
-- KEYS   1 the lock: a hash { grant: 1 }; 2 to 5 as in lua/README.md; 6 redisson.yield;
--        7 rw.readers
-- ARGV   1 to 4 as in lua/README.md; the last: 'listens permits'
-- reply  as in lua/README.md; there is no queue, and no position
-- include: redisson_lock/common/acquire
return acquire(ARGV[1], ARGV[2], ARGV[3], KEYS[5], KEYS[6])
