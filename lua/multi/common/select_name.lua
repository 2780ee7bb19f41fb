-- include: multi/common/names

-- select_name(i): makes KEYS 1 to 4 those of the i-th name, as the shared pieces expect.
local present = KEYS
local function select_name(i)
  local its = names[i]
  present[1], present[2], present[3], present[4] = its[1], its[2], its[3], its[4]
end
