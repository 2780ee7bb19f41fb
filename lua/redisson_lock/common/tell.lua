-- include: redisson_lock/common/named
-- tell(): lets one waiter per client ask. Returns how many clients were told.
local function tell()
  return redis.call('PUBLISH', named('redisson_lock__channel'), '0')
end
