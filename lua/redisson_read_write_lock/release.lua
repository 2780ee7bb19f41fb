-- Ends a write grant of a Redisson read-write lock, and tells the waiters of all clients.
--
-- KEYS, ARGV and reply as redisson_lock/release's
-- include: redisson_lock/common/gone_ms_of
-- include: redisson_lock/common/release_again
-- include: redisson_read_write_lock/common/end_write
-- include: redisson_lock/common/leave_tombstone
-- include: redisson_read_write_lock/common/acquire

local gone_ms = gone_ms_of(ARGV[2])
if redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 0 then
  return release_again(KEYS[5], gone_ms)
end
end_write(ARGV[1], KEYS[7])
leave_tombstone(KEYS[5], gone_ms)
return 'released' ..
  (#ARGV > 4 and ' ' .. acquire(ARGV[4], ARGV[5], ARGV[6], KEYS[6], KEYS[7]) or '')
