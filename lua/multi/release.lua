-- Ends a grant at all names, and hands each name to its next waiter.
--
-- KEYS   1 to 6 as simple/release's, of the first name; then 1 to 4 of each other
-- ARGV   as simple/release's
-- reply  as simple/release's: 'not_held' if the grant did not have every name; those that it had
--        are released all the same
local call, keys, me = redis.call, KEYS, ARGV[1]

-- The fast path equals end_parts() if the grant has all names and no client waits.
if not ARGV[2] then
  local locks, queues = {}, {}
  for i = 1, #keys, 4 do
    locks[#locks + 1], queues[#queues + 1] = keys[i], keys[i + 1]
  end
  local held = call('EXISTS', unpack(queues)) == 0
  for _, lock in ipairs(locks) do
    held = held and redis.pcall('GETRANGE', lock, '0', '63') == me
  end
  if held then
    call('DEL', unpack(locks))
    return 'released'
  end
end

-- include: common/time
-- include: common/ending
-- include: common/give_back
-- include: multi/common/end_parts
-- include: multi/common/pass_on

local held = survey(me)
local ending = read_ending()
end_parts(me)
for _, name in ipairs(names) do
  if name.ended then
    select_name(name)
    name.fence = give_back_tokens(name.fence, ending.used, ending.reserved)
  end
end
if ending.gone_ms ~= '0' then
  redis.call('SET', KEYS[5], '', 'PX', ending.gone_ms)
end
return (held < #names and 'not_held' or 'released') .. pass_on(now_us())
