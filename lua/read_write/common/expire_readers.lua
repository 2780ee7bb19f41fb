-- include: read_write/common/keys

-- expire_readers(now): removes expired readers, 64 at most.
local function expire_readers(now)
  local expired = redis.call('ZCOUNT', readers_key, '-inf', now)
  if expired > 0 then
    redis.call('ZREMRANGEBYRANK', readers_key, '0', math.min(expired, 64) - 1)
  end
end
