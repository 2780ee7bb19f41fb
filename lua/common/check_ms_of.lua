-- check_ms_of(note): returns after how many ms a note asks for its first check, 0 if it asks for
-- none.
local function check_ms_of(note)
  return tonumber(string.match(note, '%d+')) or 0
end
