-- include: common/fence
-- include: simple/common/take
-- include: common/settle

-- hand_over(now, fence): gives a lock that is free to the next waiter; the fence may be known.
-- Answers the look that the caller is asked for, and who got it.
local function hand_over(now, fence)
  if redis.call('EXISTS', KEYS[2]) == 0 then
    return ''
  end
  local choice = choose(nil, now)
  local _, look = settle(choice, fence or read_fence(), now)
  return look, choice.winner
end
