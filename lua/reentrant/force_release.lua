-- For people: ends all holds, tells their clients, and hands the lock to the next live waiter.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 what a grant channel begins with, before the client id
-- reply  { 'released', hold ... } or { 'free' }
-- include: common/time
-- include: common/fence
-- include: reentrant/common/holds
-- include: reentrant/common/take
-- include: common/settle

local now = now_us()
local holds = read_holds(now, 'reentrant')
local fence = read_fence()
local choice = holds.count > 0 and choose(nil, now)

redis.call('DEL', KEYS[1])
if not choice then
  return {'free'}
end
for _, hold in ipairs(holds.names) do
  redis.call('PUBLISH', ARGV[1] .. client_of(hold), 'forced ' .. hold .. ' ' .. KEYS[1])
end
settle(choice, fence, now)
return {'released', unpack(holds.names)}
