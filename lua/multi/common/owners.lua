-- A call makes so many owners at most: others are left to the caller, which goes on at once.
local owners_left = 16

-- is_full(winner): whether that one is too many for this call; else it is counted.
local function is_full(winner)
  owners_left = owners_left - (winner and 1 or 0)
  return owners_left < 0
end
