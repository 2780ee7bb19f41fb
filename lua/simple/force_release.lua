-- For people: ends whatever grant there is, a foreign one too, tells its client, and hands the lock
-- to the next live waiter.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 what a grant channel begins with, before the client id  2 'more': only hand on
-- reply  { 'released', look_ms, grant }, { 'free', look_ms } or { 'told', look_ms }
-- include: common/time
-- include: common/hold_id
-- include: common/look_of
-- include: common/fence
-- include: simple/common/take
-- include: common/settle

local holder = redis.call('GETRANGE', KEYS[1], '0', '63')
local free = redis.call('EXISTS', KEYS[1]) == 0
if not free and ARGV[2] == 'more' then
  return {'told', 0}
end

local now, fence = now_us(), read_fence()
local choice = choose(nil, now)
local client = client_of(holder)

redis.call('DEL', KEYS[1])
if client then
  redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. holder .. ' ' .. KEYS[1])
end
local _, look = settle(choice, fence, now)
return {free and 'free' or 'released', look_of(look), not free and holder or nil}
