-- For people: ends whatever grant this node has granted, a foreign one too, tells its client, and
-- the next live waiter to ask. The caller gives the grant up at all nodes, by `cancel`: it may yet
-- come to some, and is not to be healed.
--
-- KEYS   1 to 4 as acquire's; 5 whose turn it is
-- ARGV   1 what a grant channel begins with, before the client id  2 'more': only pass on
-- reply  { 'released', look_ms, grant, for how many ms it had this node }, { 'free', look_ms } or
--        { 'told', look_ms }
-- include: common/time
-- include: common/hold_id
-- include: common/look_of
-- include: quorum/common/pass_on
-- include: quorum/common/read_holder

local holder = read_holder()
local free = holder == ''
if free or ARGV[2] == 'more' then
  return {free and 'free' or 'told', free and look_of(pass_on(now_us())) or 0}
end
local client = client_of(holder)
local left_ms = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
if client then
  redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. holder .. ' ' .. KEYS[1])
end
local now = now_us()
return {'released', look_of(pass_turn(choose(nil, now), now)), holder, left_ms}
