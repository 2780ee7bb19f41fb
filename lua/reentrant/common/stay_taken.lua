-- include: common/stay_taken

-- stay_taken(held, last): lets the lock stay taken by the last grant of an owner that has left.
-- Sets the TTL at the beginning and at the end: see prolong().
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
