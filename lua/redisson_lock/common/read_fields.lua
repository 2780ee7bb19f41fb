-- include: common/wrong_kind
-- include: common/most_holders
-- read_fields(kind, wanted): the names of the hash's fields, some of them if there are many; or nil
-- and the error unless the lock is free or found_kind() says `kind`. `wanted`: what the error calls
-- the expected kind, if the keys do not tell it from others.
local function read_fields(kind, wanted)
  if found_kind() ~= kind and redis.call('EXISTS', KEYS[1]) == 1 then
    return nil, wrong_kind(wanted or kind)
  end
  return redis.call('HRANDFIELD', KEYS[1], most_holders + 1)
end
