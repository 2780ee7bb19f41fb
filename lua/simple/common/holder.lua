-- include: simple/common/placeholder

-- The grant that has the lock, '' if it is free. This reads only a part of the value, since another
-- program's value may be large.
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '63')
if #holder < 33 and holder ~= '' then  -- it is no grant, or an error, which is a table
  if holder == placeholder then
    holder = ''
  else
-- include: common/refuse_string
    refuse_string(holder, 'a simple lock')
  end
end
