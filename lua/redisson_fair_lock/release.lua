-- Ends a grant of a Redisson fair lock, and tells the first waiter.
--
-- KEYS, ARGV and reply as redisson_lock/release's; KEYS 9 redisson.alive
-- include: redisson_lock/common/gone_ms_of
-- include: redisson_lock/common/release_again
-- include: redisson_fair_lock/common/acquire
-- include: redisson_fair_lock/common/call_head

local grant, gone_ms = ARGV[1], gone_ms_of(ARGV[2])
if redis.call('HEXISTS', KEYS[1], grant) == 0 then
  return release_again(KEYS[5], gone_ms)
end
redis.call('DEL', KEYS[1])
leave_tombstone(KEYS[5], gone_ms)
local again = #ARGV > 4 and ' ' .. acquire(ARGV[4], ARGV[5], ARGV[6], KEYS[6]) or ''
local told = again ~= '' and again ~= ' gone'  -- acquire() has told the first waiter
return 'released' .. again .. (not told and call_head() and ' look 1' or '')
