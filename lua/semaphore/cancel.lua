-- Gives up a grant: removes it from the queue or, if it was granted meanwhile, returns its permits.
-- Free permits are handed over as well.
--
-- KEYS   1 to 6 as acquire's
-- ARGV   1 grant  2 gone_ms  3 its permits, which the server knows
-- reply  'left' (it was queued), 'passed_on' (it had permits) or 'unknown', and notes
-- include: common/time
-- include: semaphore/common/give_back

local held, was_queued, check = give_back(ARGV[1], ARGV[2], false, now_us())
return (held and 'passed_on' or was_queued and 'left' or 'unknown') .. check
