-- read_fields(wanted): the fields and values of the hash, or nil and the error for another kind.
local function read_fields(wanted)
  local kind = redis.pcall('HMGET', KEYS[1], 'kind')
  if kind.err or kind[1] then
-- include: common/wrong_kind
    return nil, wrong_kind(wanted, kind.err and kind)
  end
  return redis.call('HGETALL', KEYS[1])
end
