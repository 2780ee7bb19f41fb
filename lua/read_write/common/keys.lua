-- The primitive's own keys are the last in every script: these two, then grants_key. The first has
-- the grant of each reader by its expiry; the second the wait markers, which are the grants of
-- waiting writers by ticket. Readers wait in KEYS[2], and KEYS[3] has the records of both.
local read_grants_key, waiting_writers_key = KEYS[#KEYS - 2], KEYS[#KEYS - 1]
