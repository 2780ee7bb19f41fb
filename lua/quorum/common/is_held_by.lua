-- is_held_by(grant): returns true if that grant has this node's vote, by any attempt.
local function is_held_by(grant)
  local value = redis.call('GETRANGE', KEYS[1], '0', '79')
  return string.sub(value, 1, #grant + 1) == grant .. ' '
end
