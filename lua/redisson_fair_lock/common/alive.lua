-- redlatch's waiters and until when each counts as live: until three heartbeats after the last. One
-- that dies does not delay the others for its wait_timeout, if any redlatch client uses the lock.
local alive = KEYS[#KEYS]
