-- Gives up a read grant that is not wanted any more: takes it off the queue or, if it was granted
-- meanwhile, ends it. The lock passes on if that makes it possible.
--
-- KEYS   1 to 8 as acquire's
-- ARGV   1 grant  2 gone_ms  3 block, which a reader does not have
-- reply  'left' (it was queued), 'passed_on' (it was live) or 'unknown', and notes
-- include: common/time
-- include: read_write/common/end_read

local held, _, look, was_queued = end_read(ARGV[1], ARGV[2], nil, now_us())
return (held and 'passed_on' or was_queued and 'left' or 'unknown') .. look
