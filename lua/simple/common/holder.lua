-- The grant that has the lock, '' if none has it: a part of what is stored at most, since that may
-- be another program's, and large.
local holder = redis.call('GETRANGE', KEYS[1], '0', '63')
