-- The permits that programs have: a sorted set of ids of 16 bytes, by the time at which each ends,
-- in ms of the Unix epoch. For an RPermitExpirableSemaphore it is Redisson's, otherwise redlatch's.
local taken = KEYS[#KEYS]
