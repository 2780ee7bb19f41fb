-- include: common/hold_id
-- include: common/most_holders
-- include: common/since
-- include: reentrant/common/holds

-- list_holds(holds, now, most): { grant, owner, remaining_ms, 1, since } of the first of them to
-- end, of most_holders if it is not said how many, and how many live.
local function list_holds(holds, now, most)
  local names, listed = {}, {}
  local live = holds.count
  most = most or most_holders
  if holds.counted and holds.count > 0 then
    local from = string.format('(%.0f', now)
    names = redis.call('ZRANGEBYSCORE', holds_key, from, '+inf', 'LIMIT', '0', most)
    live = redis.call('ZCOUNT', holds_key, from, '+inf')
  elseif holds.count > 0 then
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do  -- mostly of one grant
      names[#names + 1] = #names < most and client_of(field) and field or nil
    end
  end
  for i, record in ipairs(names[1] and redis.call('HMGET', KEYS[1], unpack(names)) or {}) do
    local expiry, token = string.match(record or '', '^(%d+) (%d+)')
    listed[i] = {names[i], holds.owner, math.floor(((expiry or now) - now) / 1000), 1,
      since(token, now)}
  end
  return listed, live
end
