-- The keys of its own come last in every script, `holds_key` after these two. Writers wait in
-- writers_key by their tickets, readers in KEYS[2]; the records of both are in KEYS[3].
local readers_key, writers_key = KEYS[#KEYS - 2], KEYS[#KEYS - 1]
