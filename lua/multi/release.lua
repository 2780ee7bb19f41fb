-- Ends a hold at all names, and hands each to whoever is next. Queues the same client again where
-- it asks for that.
--
-- KEYS   1 to 6 as simple/release's, of the first name; then 1 to 4 of each other
-- ARGV   as simple/release's
-- reply  as simple/release's: 'not_held' if any name was not held; the others are released all the
--        same
local call, keys, me = redis.call, KEYS, ARGV[1]

-- The common case: it has all names, and nobody waits.
if not ARGV[2] then
  local locks, queues, held = {}, {}, true
  for i = 1, #keys, 4 do
    locks[#locks + 1], queues[#queues + 1] = keys[i], keys[i + 1]
    held = held and call('GETRANGE', keys[i], '0', '63') == me
  end
  if held and call('EXISTS', unpack(queues)) == 0 then
    call('DEL', unpack(locks))
    return 'released'
  end
end

-- include: common/time
-- include: common/ending
-- include: common/request
-- include: common/give_back
-- include: multi/common/bid

local all, held = survey(me)
local ending = read_ending()
local now, looks = now_us(), ''
for i, name in ipairs(all) do
  turn_to(i)
  local fence = name.fence
  if name.mine then
    redis.call('DEL', KEYS[1])
    fence = give_back_tokens(fence, ending.used, ending.reserved)
  end
  remove_waiter(me)
  if name.mine or name.free then
    looks = looks .. hand_over(now, fence)
  end
end
if ending.gone_ms ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ending.gone_ms)
end
if held < #names then
  return 'not_held' .. merge_looks(looks)
elseif not ARGV[4] then
  return 'released' .. merge_looks(looks)
elseif redis.call('EXISTS', KEYS[6]) == 1 then
  return 'released gone' .. merge_looks(looks)
end
turn_to(1)
return 'released ' .. bid(read_request(3), now, looks)
