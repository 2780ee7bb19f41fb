-- Gives up a hold that is not wanted any more: takes it off the queue or, where it was granted
-- meanwhile, passes the lock on.
--
-- KEYS   1 to 5 as acquire's
-- ARGV   1 hold  2 gone_ms  3 block
-- reply  'left' (it was queued), 'passed_on' (it owned the lock) or 'unknown'
-- include: common/time
-- include: common/fence
-- include: common/give_back
-- include: simple/common/take
-- include: common/settle
-- include: common/leave

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return leave(ARGV[1], ARGV[2]) and 'left' or 'unknown'
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
settle(choice, fence, now)
return 'passed_on'
