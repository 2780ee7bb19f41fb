-- The grant that has the lock, '' if it is free. This reads only a part of the value, since another
-- program's value may be large.
local holder = redis.call('GETRANGE', KEYS[1], '0', '63')
