-- include: simple/common/holder

-- A native grant has the lock even if a waiter has flagged its value: see common/flag.
local own = ARGV[1]
holder = holder ~= own and string.sub(own, -1) == 'n' and
  holder == string.sub(own, 1, -2) .. 'w' and own or holder
