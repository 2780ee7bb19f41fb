-- Gives up a grant: removes it from the queue or, if it was granted meanwhile, hands the lock over.
-- Also hands over a free lock, and flags a native grant that others wait for.
--
-- KEYS   1 to 5 as acquire's
-- ARGV   1 grant  2 gone_ms  3 amount
-- reply  'left' (it was queued), 'passed_on' (it owned the lock) or 'unknown', and notes
-- include: common/time
-- include: common/give_back
-- include: common/ask_again
-- include: common/leave
-- include: common/flag
-- include: simple/common/unflag
-- include: simple/common/is_free
-- include: simple/common/hand_over

local held = holder == ARGV[1]
local fence = held and read_fence()
local left = leave(ARGV[1], ARGV[2])
if held then
  local block = tonumber(ARGV[3])
  redis.call('DEL', KEYS[1])
  if block > 1 then
    fence = give_back_tokens(fence, fence - block, fence)
  end
end
local free = held or is_free()
if not free and redis.call('EXISTS', KEYS[2]) == 1 then
  flag(holder)  -- the grant may have overtaken the waiters
  if left and string.sub(holder, 33, 34) == ':0' then
    ask_again(KEYS[2])  -- only the first waiter knows how long the lock stays taken
  end
end
return (held and 'passed_on' or left and 'left' or 'unknown') ..
  (free and hand_over(now_us(), fence or nil) or '')
