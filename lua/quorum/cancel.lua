-- Gives up a hold that is not wanted any more: takes it off the queue, or back where it was
-- granted, and tells the next live waiter to ask.
--
-- KEYS   as acquire's
-- ARGV   1 hold  2 gone_ms  3 block, which is not used: tokens that another node has are not less
-- reply  'left' (it was queued), 'passed_on' (it was granted) or 'unknown', and notes
-- include: common/time
-- include: common/leave
-- include: quorum/common/pass_on
-- include: quorum/common/is_held_by

local held = is_held_by(ARGV[1])
if held then
  redis.call('DEL', KEYS[1])
end
local outcome = leave(ARGV[1], ARGV[2]) and 'left' or 'unknown'
local free = redis.call('EXISTS', KEYS[1]) == 0
return (held and 'passed_on' or outcome) .. (free and pass_on(now_us(), ARGV[1]) or '')
