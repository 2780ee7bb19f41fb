-- replaces: redisson_lock/common/channel
-- The messages of a read-write lock have another channel. '1' lets all waiters of a client ask.
local prefix, message = 'redisson_rwlock', '1'
