-- is_held_by(grant): whether that grant has this node's vote, by whichever attempt.
local function is_held_by(grant)
  local value = redis.call('GETRANGE', KEYS[1], '0', '79')
  return string.sub(value, 1, #grant + 1) == grant .. ' '
end
