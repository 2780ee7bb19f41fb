-- look_note(look_ms, unfinished): the notes by which a caller learns when to look whether the lock
-- was taken, nil if nothing was handed over, and that it is to go on at once; '' for neither.
local function look_note(look_ms, unfinished)
  return (unfinished and ' look 1' or '') ..
    (look_ms and string.format(' look %.0f', look_ms) or '')
end
