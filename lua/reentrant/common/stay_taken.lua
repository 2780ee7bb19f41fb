-- include: common/stay_taken

-- stay_taken(held, last): the owner has left, and the lock stays taken by its last grant. The TTL
-- is set first and last: see prolong().
local function stay_taken(held, last)
  local ends_ms = math.ceil(taken_until / 1000)
  redis.call('PEXPIREAT', KEYS[1], ends_ms)
  redis.call('HSET', KEYS[1], 'owner', 'taken', last.grant,
    string.format('%.0f ', taken_until) .. last.token)
  redis.call('PEXPIREAT', KEYS[1], ends_ms)
  if held.counted then
    redis.call('ZADD', grants_key, taken_until, last.grant)
    redis.call('PEXPIREAT', grants_key, ends_ms)
  end
end
