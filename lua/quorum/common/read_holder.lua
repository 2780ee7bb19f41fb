-- KEYS[1] is '<grant> <attempt>'. The attempt keeps a late cancel of an earlier attempt from ending
-- the grant.

-- read_holder(): returns grant and attempt; '' and 0 if the lock is free; or a part of a foreign
-- owner's value. Any other type is an error.
local function read_holder()
  local value = redis.pcall('GETRANGE', KEYS[1], '0', '79')
  if #value < 33 and value ~= '' then  -- it is no grant, or an error, which is a table
-- include: common/refuse_string
    refuse_string(value, 'a quorum lock')
  end
  local grant, attempt = string.match(value, '^(%x+:%d+) (%d+)$')
  if value == '' and redis.call('EXISTS', KEYS[1]) == 1 then
    value = ' '
  end
  return grant or value, tonumber(attempt) or 0
end
