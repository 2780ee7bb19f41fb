-- include: common/fence
-- include: multi/common/names

-- survey(hold): of each name its `holder`, '' and `free` if there is none, its `fence`, and whether
-- the hold has it: `mine`. Answers how many it has as well. Refuses what is in the way of a type
-- before anything is written.
local function survey(hold)
  local all, held = {}, 0
  for i = 1, #names do
    turn_to(i)
    -- A part of the holder's id at most: the value may be somebody else's, and large.
    local holder = redis.call('GETRANGE', KEYS[1], '0', '63')
    all[i] = {
      holder = holder,
      free = holder == '' and redis.call('EXISTS', KEYS[1]) == 0,
      mine = holder == hold,
      fence = read_fence(),
    }
    redis.call('ZSCORE', KEYS[2], hold)
    redis.call('HEXISTS', KEYS[3], hold)
    held = held + (all[i].mine and 1 or 0)
  end
  return all, held
end
