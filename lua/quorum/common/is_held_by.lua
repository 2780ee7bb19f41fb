-- is_held_by(grant): returns true if that grant has this node's vote, by any attempt.
local function is_held_by(grant)
  local value = redis.pcall('GETRANGE', KEYS[1], '0', '79')
  if value.err then
-- include: common/wrong_kind
    error(wrong_kind('a quorum lock', value))
  end
  return string.sub(value, 1, #grant + 1) == grant .. ' '
end
