-- Ends a hold; where it was its owner's last, hands the lock to the next live waiter. Queues the
-- same client again where it asks for that: only here, where the old hold ends, so that a repeat
-- does not queue twice.
--
-- KEYS   1 to 5 as acquire's; 6 as 5, of the fresh hold. A plain release does without 5 and 6
-- ARGV   1 hold; where there is more to do: 2 'last_used last_reserved gone_ms'  3 owner
--        4.. nothing, or all ARGV of acquire for a fresh hold
-- reply  'released', 'released ' and acquire's reply for the fresh hold, or 'not_held'

-- The only hold, which expires with the key; nobody waits; and there is nothing else to do.
if not ARGV[2] then
  local owner = string.sub(ARGV[1], 1, 32)
  local lock = redis.call('HMGET', KEYS[1], 'kind', owner, ARGV[1])
  if lock[1] == 'reentrant' and lock[2] == '1' and lock[3] and
      redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[1])
    return 'released'
  end
end

-- include: common/time
-- include: common/fence
-- include: common/give_back
-- include: common/ending
-- include: common/leave
-- include: common/request
-- include: reentrant/common/holds
-- include: reentrant/common/end_hold
-- include: reentrant/common/take
-- include: reentrant/common/decide

local now = now_us()
local holds = read_holds(now, 'reentrant')
local ending = read_ending()
if not holds.live[ARGV[1]] then
  leave(ARGV[1], ending.gone_ms)
  purge(holds)
  return 'not_held'
end

local fence = read_fence()
local again = ARGV[4] ~= nil
local given_up = again and redis.call('EXISTS', KEYS[6]) == 1
local request = again and not given_up and read_request(3) or nil
end_hold(holds, ARGV[1])
local choice
if holds.count == 0 then
  choice = choose(request, now)
elseif request then
  find_place(request, now)
end

purge(holds)
if ending.gone_ms ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ending.gone_ms)
end
fence = give_back_tokens(fence, ending.used, ending.reserved)
local reply
if request then
  reply = decide(request, choice, holds, fence, now)
elseif choice then
  settle(choice, fence, now)
end
return again and 'released ' .. (given_up and 'gone' or reply) or 'released'
