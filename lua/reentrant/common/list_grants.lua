-- include: common/grant_id
-- include: common/most_holders
-- include: common/since
-- include: reentrant/common/grants

-- list_grants(grants, now, most): returns { grant, owner, remaining_ms, 1, since } of the first
-- grants to expire (most_holders by default), and how many are live.
local function list_grants(grants, now, most)
  local names, listed = {}, {}
  local live = grants.count
  most = most or most_holders
  if grants.counted and grants.count > 0 then
    local from = string.format('(%.0f', now)
    names = redis.call('ZRANGEBYSCORE', grants_key, from, '+inf', 'LIMIT', '0', most)
    live = redis.call('ZCOUNT', grants_key, from, '+inf')
  elseif grants.count > 0 then
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do  -- mostly of one grant
      names[#names + 1] = #names < most and client_of(field) and field or nil
    end
  end
  for i, record in ipairs(names[1] and redis.call('HMGET', KEYS[1], unpack(names)) or {}) do
    local expiry, token = string.match(record or '', '^(%d+) (%d+)')
    listed[i] = {names[i], grants.owner, math.floor(((expiry or now) - now) / 1000), 1,
      since(token, now)}
  end
  return listed, live
end
