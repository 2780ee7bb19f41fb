-- include: common/fence
-- include: simple/common/take
-- include: multi/common/choose_at

-- pass_on(all, now): gives each free name to its next waiter. Returns the notes.
local function pass_on(all, now)
  for i, name in ipairs(all) do
    if name.free and name.waiting > 0 and not unfinished then
      carry_out(i, name, choose_at(i, name, nil, now), now)
    end
  end
  return check_note(check_ms, unfinished)
end
