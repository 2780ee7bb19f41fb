-- include: reentrant/common/holds_key
-- include: reentrant/common/purge

-- without(holds, mine, now): what read_holds() would say if that grant had ended. Reads only.
local function without(holds, mine, now)
  local last = holds.counted and redis.call('ZRANGE', holds_key, '-2', '-1', 'WITHSCORES') or {}
  local rest = {owner = holds.owner, token = holds.token, policy = holds.policy, latest = 0,
    count = 0, counted = holds.counted, expired = holds.expired, leaving = mine}
  for i = 1, #last, 2 do
    if last[i] ~= mine.hold then
      rest.latest = math.max(rest.latest, tonumber(last[i + 1]))
    end
  end
  if rest.latest > now then
    rest.count = holds.count - 1
  else
    rest.ended = true
  end
  return rest
end
