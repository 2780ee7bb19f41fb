-- include: common/hold_id

-- only_hold(): of a lock that one grant has, that grant; nil if there are several, or none.
local function only_hold()
  if (redis.call('HGET', KEYS[1], 'holds') or '1') ~= '1' then
    return nil
  end
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if client_of(field) then
      return field
    end
  end
end
