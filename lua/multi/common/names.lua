-- The lock's names, each with its KEYS 1 to 4. Those of the first name are where every script has
-- them; those of the others come last.
local names = {{KEYS[1], KEYS[2], KEYS[3], KEYS[4]}}
for i = 5 + #KEYS % 4, #KEYS, 4 do
  names[#names + 1] = {KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3]}
end
