-- include: common/found_kind
-- refuse(expected): the error for a key that is another kind of lock.
local function refuse(expected)
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is in use as ' .. found_kind() ..
    ', not as ' .. expected .. '; use another name')
end
