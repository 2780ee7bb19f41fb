-- include: read_write/common/keys

-- drop(writers, readers): removes waiters from their queues: two windows of them at most.
local function drop(writers, readers)
  if writers[1] then
    redis.call('ZREM', writers_key, unpack(writers))
    redis.call('HDEL', KEYS[3], unpack(writers))
  end
  if readers[1] then
    redis.call('ZREM', KEYS[2], unpack(readers))
    redis.call('HDEL', KEYS[3], unpack(readers))
  end
end
