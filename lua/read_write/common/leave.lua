-- include: read_write/common/keys

-- leave(hold, gone_ms): takes a grant that ends, or a waiter that gives up, off the queue that it
-- is in, before the next owner is chosen, and sees to it that no late request brings it back.
-- Answers whether it was queued.
local function leave(hold, gone_ms)
  redis.call('HEXISTS', KEYS[3], hold)  -- refuses another type before the first write
  local was_queued = redis.call('ZREM', writers_key, hold) + redis.call('ZREM', KEYS[2], hold) > 0
  redis.call('HDEL', KEYS[3], hold)
  if gone_ms ~= '0' then
    redis.call('SET', KEYS[5], '', 'PX', gone_ms)
  end
  return was_queued
end
