-- include: common/keep

-- keep_grant(held, last): the owner has left, and its last grant keeps the lock taken. The TTL is
-- set first and last: see prolong().
local function keep_grant(held, last)
  local ends_ms = math.ceil(kept_until / 1000)
  redis.call('PEXPIREAT', KEYS[1], ends_ms)
  redis.call('HSET', KEYS[1], 'owner', 'kept', last.grant,
    string.format('%.0f ', kept_until) .. last.token)
  redis.call('PEXPIREAT', KEYS[1], ends_ms)
  if held.counted then
    redis.call('ZADD', grants_key, kept_until, last.grant)
    redis.call('PEXPIREAT', grants_key, ends_ms)
  end
end
