-- taken_id(grant): returns the id of a released grant whose name stays taken. A zero before its
-- number tells people that no process has it any more, and a renewal that comes late does not find
-- it.
local function taken_id(grant)
  return (string.gsub(grant, ':', ':0', 1))
end
