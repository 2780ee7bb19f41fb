-- replaces: redisson_lock/common/tell
-- include: redisson_lock/common/named
-- tell(): lets all waiters ask. Java does not keep '1' for a thread that has asked, and is about to
-- wait; it keeps '0'. Returns how many clients were told.
local function tell()
  redis.call('PUBLISH', named('redisson_rwlock'), '1')
  return redis.call('PUBLISH', named('redisson_rwlock'), '0')
end
