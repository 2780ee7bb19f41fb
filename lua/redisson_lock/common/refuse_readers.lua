-- refuse_readers(readers, expected): returns the error if redlatch's own read-write lock has
-- readers under this name, and nil otherwise. Their key is another one than the lock's.
local function refuse_readers(readers, expected)
  return redis.call('EXISTS', readers) == 1 and
    redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is in use as a read-write lock, not as ' ..
      expected .. '; use another name') or nil
end
