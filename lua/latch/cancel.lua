-- Gives up waiting. There is nothing to pass on: who opens a latch opens it for all.
--
-- KEYS   1 to 6 as acquire's
-- ARGV   1 hold  2 gone_ms  3 block
-- reply  'left' (it was queued) or 'unknown'
-- include: common/leave
return leave(ARGV[1], ARGV[2]) and 'left' or 'unknown'
