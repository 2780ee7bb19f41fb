-- check_note(check_ms, unfinished): returns the notes for the caller: when to check that the lock
-- was taken (`check_ms` is nil if nothing was handed over), and that it must repeat its call at
-- once.
local function check_note(check_ms, unfinished)
  return (unfinished and ' look 1' or '') ..
    (check_ms and string.format(' look %.0f', check_ms) or '')
end
