-- Grants a Redisson read-write lock (RReadWriteLock) to a writer, or says when to ask again.
--
-- KEYS   1 the lock: a hash { mode: 'read' or 'write', reader's grant: 1,
--        writer's grant:write: 1 }; 2 to 5 as in lua/README.md; 6 redisson.yield; 7 rw.readers
-- ARGV   1 to 4 as in lua/README.md; the last: 'listens permits'
-- reply  as in lua/README.md; there is no queue, and no position
-- include: redisson_read_write_lock/common/acquire
return acquire(ARGV[1], ARGV[2], ARGV[3], KEYS[5], KEYS[6])
