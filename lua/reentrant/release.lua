-- Ends a grant; where it was its owner's last, hands the lock to the next live waiter. Queues the
-- same client again where it asks for that: only here, where the old grant ends, so that a repeat
-- does not queue twice.
--
-- KEYS   1 to 5 as acquire's; 6 as 5, of the fresh grant; the last as acquire's. A plain release
--        does without 5 and 6
-- ARGV   1 grant; where there is more to do: 2 'last_used last_reserved gone_ms'  3 owner
--        4.. nothing, or all ARGV of acquire for a fresh grant
-- reply  'released', 'released ' and acquire's reply for the fresh grant, or 'not_held'; and notes

-- The only grant, which expires with the key; no client waits; and there is nothing else to do.
if not ARGV[2] then
  local lock = redis.call('HMGET', KEYS[1], 'kind', 'holds', ARGV[1])
  if lock[1] == 'reentrant/2' and not lock[2] and lock[3] and
      redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[1])
    return 'released'
  end
end

-- include: common/time
-- include: common/fence
-- include: common/give_back_kept
-- include: common/ending
-- include: common/leave
-- include: common/request
-- include: reentrant/common/holds
-- include: reentrant/common/find_hold
-- include: reentrant/common/end_hold
-- include: reentrant/common/take
-- include: reentrant/common/decide

local now = now_us()
local holds = read_holds(now, 'reentrant/2')
local fence, range = read_fence()
local ending = read_ending()
local mine = find_hold(ARGV[1], now)
local again = mine and ARGV[4] ~= nil
local given_up = again and redis.call('EXISTS', KEYS[6]) == 1
local request = again and not given_up and read_request(3) or nil
leave(ARGV[1], ending.gone_ms)
if mine then
  holds = without(holds, mine, now)
end
local choice
if holds.count == 0 then
  choice = choose(request, now)
elseif request then
  find_place(request, now)
end

purge(holds)
if mine then
  fence = give_back_kept(ARGV[1], fence, range, ending)
end
local reply, look = nil, ''
if request then
  reply, look = decide(request, choice, holds, fence, now)
elseif choice then
  reply, look = settle(choice, fence, now)
end
return (mine and 'released' or 'not_held') ..
  (reply and ' ' .. reply or given_up and ' gone' .. look or look)
