-- live_grants(key, now, most): returns how many grants in a zset of expiries are live, and { grant,
-- remaining_ms } of the first `most` to expire.
local function live_grants(key, now, most)
  local from = string.format('(%.0f', now)
  local entries = most > 0 and
    redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', '0', most) or {}
  local grants = {}
  for i = 1, #entries, 2 do
    grants[#grants + 1] = {entries[i], math.floor((entries[i + 1] - now) / 1000)}
  end
  return redis.call('ZCOUNT', key, from, '+inf'), grants
end
