-- include: common/wrong_kind
-- include: common/most_holders
-- read_fields(words, wanted): the names of the hash's fields, some of them if there are many; or
-- nil and the error unless the lock is free or found_kind() calls it `words`.
local function read_fields(words, wanted)
  if found_kind() ~= words and redis.call('EXISTS', KEYS[1]) == 1 then
    return nil, wrong_kind(wanted)
  end
  return redis.call('HRANDFIELD', KEYS[1], most_holders + 1)
end
