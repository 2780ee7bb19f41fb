-- Ends a grant of a Redisson fenced lock, as redisson_lock/release does.
--
-- KEYS, ARGV and reply as redisson_lock/release's
-- include: redisson_fenced_lock/common/token
-- include: redisson_lock/common/release
return release()
