-- Gives up a read hold that is not wanted any more: takes it off the queue or, where it was granted
-- meanwhile, ends it.
--
-- KEYS   1 to 7 as acquire's
-- ARGV   1 hold  2 gone_ms  3 block, which a reader does not have
-- reply  'left' (it was queued), 'passed_on' (it was live) or 'unknown'
-- include: common/time
-- include: read_write/common/end_read

local held, _, was_queued = end_read(ARGV[1], ARGV[2], nil, now_us())
return held and 'passed_on' or was_queued and 'left' or 'unknown'
