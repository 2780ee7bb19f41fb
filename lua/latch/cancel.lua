-- Stops waiting. There is nothing to hand over: a latch opens for all at once. At an open latch, it
-- tells the next window of waiters.
--
-- KEYS   1 to 6 as acquire's
-- ARGV   1 grant  2 gone_ms  3 amount
-- reply  'left' (it was queued) or 'unknown', and notes
-- include: common/leave
-- include: latch/common/state
-- include: latch/common/wake

local latch = read_latch(0)
local outcome = leave(ARGV[1], ARGV[2]) and 'left' or 'unknown'
return outcome .. (latch and latch.count == 0 and wake(latch) or '')
