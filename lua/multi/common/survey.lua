-- include: common/read_fence
-- include: multi/common/names

-- survey(hold): of each name its `holder`, '' and `free` if there is none, whether the hold has it
-- (`mine`), the hold's `ticket` there, nil if it is not queued, and the `fence`. Answers how many
-- it has as well. Refuses what is in the way of a type before anything is written.
local function survey(hold)
  local all, held, absent, locks = {}, 0, 0, {}
  for i, name in ipairs(names) do
    turn_to(i)
    -- A part of the holder's id at most: the value may be somebody else's, and large.
    local holder = redis.call('GETRANGE', name[1], '0', '63')
    redis.call('HEXISTS', name[3], hold)
    all[i] = {
      holder = holder,
      free = holder == '',
      mine = holder == hold,
      ticket = tonumber(redis.call('ZSCORE', name[2], hold) or nil),
      fence = read_fence(),
    }
    held = held + (all[i].mine and 1 or 0)
    absent = absent + (all[i].free and 1 or 0)
    locks[i] = name[1]
  end
  if absent > 0 and redis.call('EXISTS', unpack(locks)) + absent > #names then
    for i, name in ipairs(all) do  -- a value may be empty
      name.free = name.free and redis.call('EXISTS', names[i][1]) == 0
    end
  end
  return all, held
end
