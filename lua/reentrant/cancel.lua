-- Gives up a hold that is not wanted any more: takes it off the queue or, where it was granted
-- meanwhile, ends it and, where it was its owner's last, passes the lock on.
--
-- KEYS   1 to 5 as acquire's
-- ARGV   1 hold  2 gone_ms  3 block
-- reply  'left' (it was queued), 'passed_on' (it was live) or 'unknown'
-- include: common/time
-- include: common/fence
-- include: common/give_back
-- include: common/leave
-- include: reentrant/common/holds
-- include: reentrant/common/end_hold
-- include: reentrant/common/take
-- include: reentrant/common/purge
-- include: common/settle

local now = now_us()
local holds = read_holds(now, 'reentrant')
local mine = holds.live[ARGV[1]]
if not mine then
  local was_queued = leave(ARGV[1], ARGV[2])
  purge(holds)
  return was_queued and 'left' or 'unknown'
end

local fence = read_fence()
local block = tonumber(ARGV[3])
end_hold(holds, ARGV[1])
local choice = holds.count == 0 and choose(nil, now)

purge(holds)
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ARGV[2])
end
if block > 1 then
  fence = give_back_tokens(fence, mine.token - 1, mine.token + block - 1)
end
if choice then
  settle(choice, fence, now)
end
return 'passed_on'
