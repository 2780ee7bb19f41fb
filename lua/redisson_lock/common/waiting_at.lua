-- include: redisson_lock/common/named
-- waiting_at(prefix): how many clients listen on that channel, and so wait.
local function waiting_at(prefix)
  return redis.call('PUBSUB', 'NUMSUB', named(prefix))[2]
end
