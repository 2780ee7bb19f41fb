-- include: multi/common/names

-- turn_to(i): makes KEYS 1 to 4 those of the i-th name, as the pieces of other locks expect them.
local present = KEYS
local function turn_to(i)
  local its = names[i]
  present[1], present[2], present[3], present[4] = its[1], its[2], its[3], its[4]
end
