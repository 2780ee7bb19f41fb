-- is_held_by(hold): whether that grant has this node's vote, by whichever attempt.
local function is_held_by(hold)
  local value = redis.call('GETRANGE', KEYS[1], '0', '79')
  return string.sub(value, 1, #hold + 1) == hold .. ' '
end
