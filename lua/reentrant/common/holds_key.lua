-- The key of its own comes last in every script: the holds by their expiry, from the second on. A
-- hold that is alone ends with KEYS[1].
local holds_key = KEYS[#KEYS]
