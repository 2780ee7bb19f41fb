-- For people: ends all grants, and hands the lock to the next live waiter. Tells the clients of the
-- first 64 grants. The others learn of it when they renew.
--
-- KEYS   1 to 4 as acquire's, and its last
-- ARGV   as simple/force_release's
-- reply  { 'released', check_ms, grant ... } of those told, { 'free', check_ms } or
--        { 'told', check_ms }
-- include: common/time
-- include: common/fence
-- include: common/check_ms_of
-- include: reentrant/common/list_grants
-- include: reentrant/common/take
-- include: common/settle

local now = now_us()
local grants = read_grants(now, 'reentrant/2')
local fence = read_fence()
if grants.count > 0 and ARGV[2] == 'more' then
  return {'told', 0}
end
local reply = {grants.count > 0 and 'released' or 'free', 0}
local listed = list_grants(grants, now)
local choice = choose(nil, now)

redis.call('UNLINK', KEYS[1], grants_key)
for i = 1, math.min(#listed, 64) do
  local grant = listed[i][1]
  reply[#reply + 1] = grant
  redis.call('PUBLISH', ARGV[1] .. client_of(grant), 'forced ' .. grant .. ' ' .. KEYS[1])
end
local _, check = settle(choice, fence, now)
reply[2] = check_ms_of(check)
return reply
