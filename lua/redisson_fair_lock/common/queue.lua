-- The queue of a Redisson fair lock: a list of waiters, and for each the time until which it keeps
-- its place, in ms of the Unix epoch. Each waiter adds its own wait_timeout to the time of the one
-- before it, and takes it off all others when it leaves.
local queue, timeouts = KEYS[2], KEYS[3]
