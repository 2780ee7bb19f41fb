-- include: multi/common/owners
-- include: multi/common/survey
-- include: multi/common/merge_looks
-- include: simple/common/hand_over

-- pass_on(all, now): gives each name that is free to the next waiter there. Answers the notes.
local function pass_on(all, now)
  local looks = ''
  for i, name in ipairs(all) do
    turn_to(i)
    if name.free and owners_left > 0 and looks_left > 0 then
      local look, winner = hand_over(now, name.fence)
      is_full(winner)
      looks = looks .. look
    elseif name.free and redis.call('EXISTS', KEYS[2]) == 1 then
      return merge_looks(looks .. ' look 1')
    end
  end
  return merge_looks(looks)
end
