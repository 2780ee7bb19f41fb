-- check_note(check_ms, unfinished): the notes that tell the caller when to check that the lock was
-- taken (nil: nothing was handed over), and to repeat its call at once.
local function check_note(check_ms, unfinished)
  return (unfinished and ' look 1' or '') ..
    (check_ms and string.format(' look %.0f', check_ms) or '')
end
