-- include: common/grant_id

-- only_grant(): returns the grant of a lock that has exactly one, otherwise nil.
local function only_grant()
  if (redis.call('HGET', KEYS[1], 'holds') or '1') ~= '1' then
    return nil
  end
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if client_of(field) then
      return field
    end
  end
end
