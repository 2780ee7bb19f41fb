-- include: common/settle
-- include: simple/common/free

-- give(choice, fence, now): does what settle() does, and leaves the lock free if no client gets it.
local function give(choice, fence, now)
  local reply, check = settle(choice, fence, now)
  if not choice.winner and (not choice.request or choice.refused or choice.invited) then
    leave_free()
  end
  return reply, check
end
