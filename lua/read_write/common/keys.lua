-- The primitive's own keys are the last in every script: these two, then grants_key. Writers wait
-- in writers_key by ticket, readers in KEYS[2]; KEYS[3] has the records of both.
local readers_key, writers_key = KEYS[#KEYS - 2], KEYS[#KEYS - 1]
