-- The primitive's own key is the last one in every script: the grants by their expiry, from the
-- second grant on. A single grant expires with KEYS[1]. Scripts ignore the key unless KEYS[1] has
-- the field `holds`; otherwise it is left over from a deleted lock.
local grants_key = KEYS[#KEYS]
