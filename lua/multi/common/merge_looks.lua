-- include: common/notes

-- merge_looks(notes): what all these looks come to: at once, if one is, and when the last claim is
-- over.
local function merge_looks(notes)
  local unfinished, latest = false, nil
  for text in string.gmatch(notes, ' look (%d+)') do
    local ms = tonumber(text)
    if ms == 1 then
      unfinished = true
    else
      latest = math.max(ms, latest or 0)
    end
  end
  return look_note(latest, unfinished)
end
