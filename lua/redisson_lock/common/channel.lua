-- The channel on which waiters listen, and the message that lets one waiter per client ask.
local prefix, message = 'redisson_lock__channel', '0'
