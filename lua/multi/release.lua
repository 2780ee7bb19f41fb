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
-- include: multi/common/end_parts
-- include: multi/common/pass_on

local all, held = survey(me)
local ending = read_ending()
end_parts(all, me)
for i, name in ipairs(all) do
  if name.ended then
    turn_to(i)
    name.fence = give_back_tokens(name.fence, ending.used, ending.reserved)
  end
end
if ending.gone_ms ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ending.gone_ms)
end
local outcome = held < #names and 'not_held' or 'released'
if outcome == 'released' and ARGV[4] and redis.call('EXISTS', KEYS[6]) == 0 then
  turn_to(1)
  local request = read_request(3)
  request.frees = true
  return 'released ' .. bid(request, now_us(), all)
end
return outcome .. (outcome == 'released' and ARGV[4] and ' gone' or '') .. pass_on(all, now_us())
