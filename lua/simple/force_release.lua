-- For people: ends whatever grant there is, a foreign one too, tells its client, and hands the lock
-- to the next live waiter.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 what a grant channel begins with, before the client id  2 'more': only hand on
-- reply  { 'released', look_ms, grant }, { 'free', look_ms } or { 'told', look_ms }
-- include: common/time
-- include: common/hold_id
-- include: common/look_of
-- include: simple/common/hand_over

local holder = redis.call('GETRANGE', KEYS[1], '0', '63')
local free = redis.call('EXISTS', KEYS[1]) == 0
if free or ARGV[2] == 'more' then
  return {free and 'free' or 'told', free and look_of(hand_over(now_us())) or 0}
end

local now = now_us()
local fence = read_fence()
local choice = choose(nil, now)
local client = client_of(holder)

redis.call('DEL', KEYS[1])
if client then
  redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. holder .. ' ' .. KEYS[1])
end
local _, look = settle(choice, fence, now)
return {'released', look_of(look), holder}
