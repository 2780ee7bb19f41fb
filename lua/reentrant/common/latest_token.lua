-- include: common/grant_id

-- latest_token(grants): returns the token of the owner's latest grant.
local function latest_token(grants)
  if grants.token then
    return grants.token
  end
  local fields = redis.call('HGETALL', KEYS[1])  -- of one grant
  for i = 1, #fields, 2 do
    if client_of(fields[i]) then
      return string.match(fields[i + 1], '%d+$')
    end
  end
end
