-- Grants a Redisson fenced lock (RFencedLock), as redisson_lock/acquire does, with a token.
--
-- KEYS, ARGV and reply as redisson_lock/acquire's; KEYS 4 is Redisson's counter
-- include: redisson_fenced_lock/common/token
-- include: redisson_lock/common/acquire
return acquire(ARGV[1], ARGV[2], ARGV[3], KEYS[5], KEYS[6])
