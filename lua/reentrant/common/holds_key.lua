-- The key of its own comes last in every script: the holds by their expiry, from the second on. A
-- hold that is alone ends with KEYS[1]. It counts only if KEYS[1] has the field `holds`: else it is
-- what a lock that was deleted has left, and nobody reads it.
local holds_key = KEYS[#KEYS]
