-- The election's own keys are the last in every script: the leader's record, and the observers,
-- which are '<channel> <secret>' by the time at which they are forgotten, in us of server time. A
-- key of another type is refused here, before the first write.
local leader_key, observers_key = KEYS[#KEYS - 1], KEYS[#KEYS]
redis.call('GETRANGE', leader_key, '0', '0')
redis.call('ZCARD', observers_key)
