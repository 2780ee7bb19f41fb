-- include: reentrant/common/grants_key
-- include: reentrant/common/purge

-- without(grants, mine, now): returns what read_grants() would return after that grant has ended.
-- Reads only.
local function without(grants, mine, now)
  local last = grants.counted and redis.call('ZRANGE', grants_key, '-2', '-1', 'WITHSCORES') or {}
  local rest = {owner = grants.owner, token = grants.token, policy = grants.policy, latest = 0,
    count = 0, counted = grants.counted, expired = grants.expired, leaving = mine}
  for i = 1, #last, 2 do
    if last[i] ~= mine.grant then
      rest.latest = math.max(rest.latest, tonumber(last[i + 1]))
    end
  end
  if rest.latest > now then
    rest.count = grants.count - 1
  else
    rest.ended = true
  end
  return rest
end
