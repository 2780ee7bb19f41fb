-- For people: ends any grant of this node, even a foreign one, tells its client, and invites the
-- next live waiter. The caller then sends `cancel` for that grant to all nodes: requests for the
-- grant may still reach some of them, and the grant must not be healed.
--
-- KEYS   1 to 4 as acquire's; 5 the reservation
-- ARGV   as simple/force_release's
-- reply  { 'released', check_ms, grant, for how many more ms it would have had this node },
--        { 'free', check_ms } or { 'told', check_ms }
-- include: common/time
-- include: common/grant_id
-- include: common/check_ms_of
-- include: quorum/common/pass_on
-- include: quorum/common/read_holder

local holder = read_holder()
local free = holder == ''
if free or ARGV[2] == 'more' then
  return {free and 'free' or 'told', free and check_ms_of(pass_on(now_us())) or 0}
end
local client = client_of(holder)
local left_ms = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
if client then
  redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. holder .. ' ' .. KEYS[1])
end
local now = now_us()
return {'released', check_ms_of((pass_to_next(choose(nil, now), now))), holder, left_ms}
