-- For people: ends all grants, tells the clients of the first of them (the others learn of it when
-- they renew), and hands the lock to the next live waiter.
--
-- KEYS   1 to 4 as acquire's, and its last
-- ARGV   1 what a grant channel begins with, before the client id  2 'more': only hand on
-- reply  { 'released', look_ms, grant ... } of those told, { 'free', look_ms } or
--        { 'told', look_ms }
-- include: common/time
-- include: common/fence
-- include: common/look_of
-- include: reentrant/common/list_holds
-- include: reentrant/common/take
-- include: common/settle

local now = now_us()
local holds = read_holds(now, 'reentrant/2')
local fence = read_fence()
if holds.count > 0 and ARGV[2] == 'more' then
  return {'told', 0}
end
local reply = {holds.count > 0 and 'released' or 'free', 0}
local listed = list_holds(holds, now)
local choice = choose(nil, now)

redis.call('UNLINK', KEYS[1], holds_key)
for i = 1, math.min(#listed, 64) do
  local hold = listed[i][1]
  reply[#reply + 1] = hold
  redis.call('PUBLISH', ARGV[1] .. client_of(hold), 'forced ' .. hold .. ' ' .. KEYS[1])
end
local _, look = settle(choice, fence, now)
reply[2] = look_of(look)
return reply
