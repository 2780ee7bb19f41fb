-- include: read_write/common/keys

-- expire_readers(now): removes at most 64 expired readers.
local function expire_readers(now)
  local expired = redis.call('ZCOUNT', read_grants_key, '-inf', now)
  if expired > 0 then
    redis.call('ZREMRANGEBYRANK', read_grants_key, '0', math.min(expired, 64) - 1)
  end
end
