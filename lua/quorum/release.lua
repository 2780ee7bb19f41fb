-- Ends a hold at one node, and tells the next live waiter to ask all nodes. Queues the same client
-- again where it asks for that.
--
-- KEYS   1 to 4 as acquire's; but for a plain release, 5 as acquire's and 6 as 5, of the fresh hold;
--        the last one whose turn it is
-- ARGV   as in lua/README.md
-- reply  'released', 'released ' and 'queued <retry_after_ms> <position> <ticket>' or 'gone' for the
--        fresh hold, or 'not_held'; and notes
-- include: common/time
-- include: common/give_back
-- include: common/fence
-- include: common/ending
-- include: common/request
-- include: common/leave
-- include: quorum/common/turn
-- include: quorum/common/holder
local call, lock = redis.call, KEYS[1]
local held = is_held_by(ARGV[1])
local plain = not ARGV[2]
if held and plain then
  call('DEL', lock)
  if call('EXISTS', KEYS[2]) == 0 then
    return 'released'
  end
  local now = now_us()
  return 'released' .. pass_turn(choose(nil, now), now)
end

local ending = read_ending()
local now = now_us()
if held then
  call('DEL', lock)
end
if not held then  -- it may have waited here, while others granted it
  leave(ARGV[1], ending.gone_ms)
  return 'not_held' .. (call('EXISTS', lock) == 0 and pass_on(now, ARGV[1]) or '')
end
if ending.gone_ms ~= '0' then
  call('SET', KEYS[5], '', 'PX', ending.gone_ms)
end
give_back_tokens(read_fence(), ending.used, ending.reserved)
local reply = ''
if ARGV[4] then
  reply = ' gone'
  if call('EXISTS', KEYS[6]) == 0 then
    local request = read_request(3)
    find_place(request, now)
    reply = ' ' .. enqueue(request, 0, now)
  end
end
return 'released' .. reply .. pass_turn(choose(nil, now), now)
