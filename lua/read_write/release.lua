-- Ends a write hold; where it was its owner's last, the lock passes on. Queues the same client
-- again where it asks for that: only here, where the old hold ends, so that a repeat does not queue
-- twice.
--
-- KEYS   1 to 5 as acquire's; 6 as 5, of the fresh hold; the last two as acquire's. A plain release
--        does without 5 and 6
-- ARGV   1 hold; where there is more to do: 2 'last_used last_reserved gone_ms'  3 owner
--        4.. nothing, or all ARGV of acquire for a fresh hold
-- reply  'released', 'released ' and acquire's reply for the fresh hold, or 'not_held'

-- The only hold, which expires with the key; nobody waits; and there is nothing else to do.
local call, keys, args = redis.call, KEYS, ARGV
if not args[4] and (not args[2] or string.find(args[2], '^(%d+) %1 0$')) then
  local lock = call('HMGET', keys[1], 'kind', args[3] or string.sub(args[1], 1, 32), args[1])
  if lock[1] == 'read_write' and lock[2] == '1' and lock[3] and call('EXISTS', keys[2]) == 0 then
    call('DEL', keys[1])
    return 'released'
  end
end

-- include: common/time
-- include: common/give_back
-- include: common/ending
-- include: common/leave
-- include: reentrant/common/end_hold
-- include: reentrant/common/purge
-- include: read_write/common/read_bid
-- include: read_write/common/settle

local now = now_us()
local state = read_state(now)
local fence = read_fence()
local ending = read_ending()
local holds = state.holds
if not holds.live[ARGV[1]] then
  leave(ARGV[1], ending.gone_ms)
  redis.call('ZREM', markers_key, ARGV[1])
  local choice = choose(nil, state, now)
  purge(holds)
  settle(choice, state, fence, now)
  return 'not_held'
end

local again = ARGV[4] ~= nil
local given_up = again and redis.call('EXISTS', KEYS[6]) == 1
end_hold(holds, ARGV[1])
local choice = choose(again and not given_up and read_bid(3) or nil, state, now)

purge(holds)
if ending.gone_ms ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ending.gone_ms)
end
fence = give_back_tokens(fence, ending.used, ending.reserved)
local reply = settle(choice, state, fence, now)
return again and 'released ' .. (given_up and 'gone' or reply) or 'released'
