-- Gives up a hold that is not wanted any more: takes it off the queue or, if it was granted
-- meanwhile, passes the lock on. A lock that is free is handed over as well.
--
-- KEYS   1 to 5 as acquire's
-- ARGV   1 hold  2 gone_ms  3 block
-- reply  'left' (it was queued), 'passed_on' (it owned the lock) or 'unknown', and notes
-- include: common/time
-- include: common/give_back
-- include: common/leave
-- include: simple/common/hand_over

local holder = redis.call('GETRANGE', KEYS[1], '0', '63')
if holder ~= ARGV[1] then
  local outcome = leave(ARGV[1], ARGV[2]) and 'left' or 'unknown'
  return outcome .. (redis.call('EXISTS', KEYS[1]) == 0 and hand_over(now_us()) or '')
end

local now = now_us()
local fence = read_fence()
local block = tonumber(ARGV[3])
local choice = choose(nil, now)

redis.call('DEL', KEYS[1])
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ARGV[2])
end
if block > 1 then
  fence = give_back_tokens(fence, fence - block, fence)
end
local _, look = settle(choice, fence, now)
return 'passed_on' .. look
