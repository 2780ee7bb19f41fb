-- The election's own keys are the last in every script: the leader's record, and the observing
-- clients, '<channel> <secret>', by the time at which the server forgets them, in us. This refuses
-- a key of another type before the first write.
local leader_key, observers_key = KEYS[#KEYS - 1], KEYS[#KEYS]
redis.call('GETRANGE', leader_key, '0', '0')
redis.call('ZCARD', observers_key)
