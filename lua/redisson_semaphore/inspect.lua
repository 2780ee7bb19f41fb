-- For people: lists the permits that are known to be taken. Writes nothing.
--
-- KEYS   1 to 4 as acquire's; 5 redisson.yield; 6 rw.readers; 7 the permits that programs have
-- ARGV   1 the most waiters to list; the last as acquire's
-- reply  { kind, '0', { { id, '', remaining_ms, 1 } ... }, waiting, {}, holding,
--          free and taken, taken }
-- include: redisson_semaphore/common/list_permits
-- include: redisson_semaphore/common/taken
-- include: redisson_semaphore/common/taken_is_ours
-- include: redisson_lock/common/now_ms
-- include: common/most_holders
-- include: redisson_lock/common/named
local holders = list_permits(taken, now_ms(), most_holders)
local all, free = redis.call('ZCARD', taken), redis.call('GET', KEYS[1]) or 0
return {taken_is_ours and 'redisson_semaphore' or 'redisson_permit_expirable_semaphore', '0',
  holders, redis.call('PUBSUB', 'NUMSUB', named('redisson_sc'))[2], {}, all, all + free, all}
