-- replaces: redisson_lock/common/tell
-- include: redisson_lock/common/named
-- tell(): lets all waiters ask. A Java thread that has just asked, and does not wait yet, misses
-- '1' but not '0'. Returns how many clients were told.
local function tell()
  redis.call('PUBLISH', named('redisson_rwlock'), '1')
  return redis.call('PUBLISH', named('redisson_rwlock'), '0')
end
