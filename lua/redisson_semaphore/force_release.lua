-- For people: takes away the permits that are known to be taken.
--
-- KEYS   1 to 4 as acquire's; 5 redisson.yield; 6 rw.readers; 7 the permits that programs have
-- ARGV   1 the grant channels' prefix before the client id; the last as acquire's
-- reply  { 'released', 0 } or { 'free', 0 }
-- include: redisson_semaphore/common/give_back
local removed = redis.call('ZCARD', taken)
redis.call('UNLINK', taken)
give_back('', removed)
return {removed > 0 and 'released' or 'free', 0}
