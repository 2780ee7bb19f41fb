-- The lock's names, each with its keys. The keys of the first name are where every script has them,
-- and those of the others come last. survey() adds what the keys store.
local names, keys_between = {}, #KEYS % 4
for i = 1, #KEYS - keys_between, 4 do
  local at = i > 1 and i + keys_between or i
  names[#names + 1] = {
    lock = KEYS[at],
    queue = KEYS[at + 1],
    waiters = KEYS[at + 2],
    fence_key = KEYS[at + 3],
    holder = '',
    free = false,
    mine = false,
    waiting = 0,
    fence = 0,
  }
end
