-- include: common/hold_id

-- latest_token(holds): that of the owner's latest grant.
local function latest_token(holds)
  if holds.token then
    return holds.token
  end
  local fields = redis.call('HGETALL', KEYS[1])  -- of one grant
  for i = 1, #fields, 2 do
    if client_of(fields[i]) then
      return string.match(fields[i + 1], '%d+$')
    end
  end
end
