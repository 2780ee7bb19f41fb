-- include: redisson_lock/common/names
-- publish(client, channel, message, yield): tells waiters that they may ask. If there are others
-- than this client's, this client does not take the lock again for a moment: it would always be
-- faster, since its next request is already on its way.
local function publish(client, channel, message, yield)
  if redis.call('PUBLISH', channel, message) > tonumber(listens) then
    redis.call('SET', yield, client, 'PX', 5)
  end
end
