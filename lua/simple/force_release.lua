-- For people: ends whatever hold there is, a foreign one too, tells its client, and hands the lock
-- to the next live waiter.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 what a grant channel begins with, before the client id
-- reply  { 'released', hold } or { 'free' }
local holder = redis.call('GET', KEYS[1])
if not holder then
  return {'free'}
end

-- include: common/time
-- include: common/fence
-- include: common/hold_id
-- include: simple/common/take
-- include: common/settle

local now = now_us()
local fence = read_fence()
local choice = choose(nil, now)
local client = client_of(holder)

redis.call('DEL', KEYS[1])
if client then
  redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. holder .. ' ' .. KEYS[1])
end
settle(choice, fence, now)
return {'released', holder}
