-- check_ms_of(note): the first check that a note asks for, in ms; 0 for none.
local function check_ms_of(note)
  return tonumber(string.match(note, '%d+')) or 0
end
