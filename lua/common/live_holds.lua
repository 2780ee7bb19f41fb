-- live_holds(key, now, most): how many grants live in a zset of their expiries, and of the first
-- `most` to end { grant, remaining_ms }.
local function live_holds(key, now, most)
  local from = string.format('(%.0f', now)
  local entries = most > 0 and
    redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', '0', most) or {}
  local holds = {}
  for i = 1, #entries, 2 do
    holds[#holds + 1] = {entries[i], math.floor((entries[i + 1] - now) / 1000)}
  end
  return redis.call('ZCOUNT', key, from, '+inf'), holds
end
