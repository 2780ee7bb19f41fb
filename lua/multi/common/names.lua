-- The lock's names: turn_to(i) makes KEYS 1 to 4 those of the i-th, as the pieces of other locks
-- expect them. Those of the first stand where every script has them, the others' come last.
local present = KEYS
local names = {{KEYS[1], KEYS[2], KEYS[3], KEYS[4]}}
for i = 5 + #KEYS % 4, #KEYS, 4 do
  names[#names + 1] = {KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3]}
end
local function turn_to(i)
  present[1], present[2], present[3], present[4] = unpack(names[i])
end
