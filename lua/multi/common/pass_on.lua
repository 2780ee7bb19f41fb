-- include: common/fence
-- include: simple/common/take
-- include: multi/common/choose_at

-- pass_on(now): gives each free name to its next waiter. Returns the notes.
local function pass_on(now)
  for _, name in ipairs(names) do
    if name.free and (name.waiting > 0 or name.has_placeholder) then
      carry_out(name, choose_at(name, nil, now), now)
    end
  end
  return check_note(check_ms, unfinished)
end
