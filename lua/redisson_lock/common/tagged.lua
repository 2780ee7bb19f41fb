-- The lock's name as it occurs in Redisson's other keys.
local tagged = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
