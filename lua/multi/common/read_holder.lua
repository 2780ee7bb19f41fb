-- include: simple/common/placeholder

-- read_holder(lock): returns the value of a name's key, '' if there is none or the placeholder, and
-- whether it was that. Reads only a part, since another program's value may be large. Raises an
-- error if the key is no simple lock's.
local function read_holder(lock)
  local holder = redis.pcall('GETRANGE', lock, '0', '63')
  if holder == placeholder then
    return '', true
  elseif #holder < 33 and holder ~= '' then  -- it is no grant, or an error, which is a table
-- include: common/refuse_string
    refuse_string(holder, 'a simple lock', lock)
  end
  return holder
end
