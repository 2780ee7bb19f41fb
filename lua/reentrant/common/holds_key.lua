-- The key of its own comes last in every script: the grants by their expiry, from the second on. A
-- grant that is alone ends with KEYS[1]. It counts only if KEYS[1] has the field `holds`: else it
-- is what a lock that was deleted has left, and no script reads it.
local holds_key = KEYS[#KEYS]
