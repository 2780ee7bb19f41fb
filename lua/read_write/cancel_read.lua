-- Gives up a read grant: removes it from the queue or, if it was granted meanwhile, ends it. Hands
-- the lock over if that makes it possible.
--
-- KEYS   1 to 8 as acquire's
-- ARGV   1 grant  2 gone_ms  3 amount, which readers do not use
-- reply  'left' (it was queued), 'passed_on' (it was live) or 'unknown', and notes
-- include: common/time
-- include: read_write/common/ask_if_taken
-- include: read_write/common/end_read

local held, _, check, was_queued = end_read(ARGV[1], ARGV[2], nil, now_us())
if was_queued then
  ask_if_taken()
end
return (held and 'passed_on' or was_queued and 'left' or 'unknown') .. check
