-- Gives up a grant that is not wanted any more: takes it off the queue or, if it was granted
-- meanwhile, ends it and, if it was its owner's last, passes the lock on. A lock that is free is
-- handed over as well.
--
-- KEYS   1 to 5 as acquire's, and its last
-- ARGV   1 grant  2 gone_ms  3 block
-- reply  'left' (it was queued), 'passed_on' (it was live) or 'unknown', and notes
-- include: common/time
-- include: common/fence
-- include: common/give_back
-- include: common/leave
-- include: reentrant/common/holds
-- include: reentrant/common/find_hold
-- include: reentrant/common/end_hold
-- include: reentrant/common/take
-- include: common/settle

local now = now_us()
local holds = read_holds(now, 'reentrant/2')
local fence = read_fence()
local mine = find_hold(ARGV[1], now)
local left = leave(ARGV[1], ARGV[2])
if mine then
  holds = without(holds, mine, now)
end
local choice = holds.count == 0 and choose(nil, now)

purge(holds)
local block = tonumber(ARGV[3])
if mine and block > 1 then
  fence = give_back_tokens(fence, mine.token - 1, mine.token + block - 1)
end
local look = ''
if choice then
  look = select(2, settle(choice, fence, now))
end
return (mine and 'passed_on' or left and 'left' or 'unknown') .. look
