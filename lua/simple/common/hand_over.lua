-- include: common/fence
-- include: simple/common/take
-- include: simple/common/give

-- hand_over(now, fence): gives a free lock to the next waiter. Returns the handover check as a
-- note.
local function hand_over(now, fence)
  if redis.call('EXISTS', KEYS[2]) == 0 and not has_placeholder then
    return ''
  end
  return (select(2, give(choose(nil, now), fence or read_fence(), now)))
end
