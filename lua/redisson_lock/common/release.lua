-- include: redisson_lock/common/gone_ms_of
-- include: redisson_lock/common/release_again
-- include: redisson_lock/common/tell
-- include: redisson_lock/common/leave_tombstone
-- include: redisson_lock/common/begin_yield
-- include: redisson_lock/common/acquire
-- release(): ends the grant, tells the waiters, and asks again for a fresh grant.
local function release()
  local grant, ending, latch, yield = ARGV[1], ARGV[2], KEYS[5], KEYS[7]
  local gone_ms = gone_ms_of(ending)
  if redis.call('HEXISTS', KEYS[1], grant) == 0 then
    return release_again(latch, gone_ms)
  end
  local told = tell()  -- first, since it may be refused
  redis.call('DEL', KEYS[1])
  leave_tombstone(latch, gone_ms)
  begin_yield(string.sub(grant, 1, 32), told, yield)
  return 'released' ..
    (#ARGV > 4 and ' ' .. acquire(ARGV[4], ARGV[5], ARGV[6], KEYS[6], yield) or '')
end
