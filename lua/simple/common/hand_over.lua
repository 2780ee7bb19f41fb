-- include: common/fence
-- include: simple/common/take
-- include: common/settle

-- hand_over(now): gives a lock that is free, though it was not this caller's, to whoever is next.
-- Answers the look that the caller is asked for.
local function hand_over(now)
  if redis.call('EXISTS', KEYS[2]) == 0 then
    return ''
  end
  local choice = choose(nil, now)
  local _, look = settle(choice, read_fence(), now)
  return look
end
