-- look_of(note): the first look that a note asks for, in ms; 0 if it asks for none.
local function look_of(note)
  return tonumber(string.match(note, '%d+')) or 0
end
