-- include: common/fence
-- include: simple/common/take
-- include: multi/common/choose_at

-- pass_on(all, now): gives each name that is free to the next waiter there. Answers the notes.
local function pass_on(all, now)
  for i, name in ipairs(all) do
    if name.free and name.waiting > 0 and not unfinished then
      carry_out(i, name, choose_at(i, name, nil, now), now)
    end
  end
  return look_note(look_ms, unfinished)
end
