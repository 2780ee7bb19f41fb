-- For people: ends any grant, even a foreign one, tells its client, and hands the lock to the next
-- live waiter.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 the grant channel's prefix before the client id  2 'more': only hand over
-- reply  { 'released', check_ms, grant }, { 'free', check_ms } or { 'told', check_ms }
-- include: simple/common/is_free
-- include: common/time
-- include: common/grant_id
-- include: common/check_ms_of
-- include: common/fence
-- include: simple/common/take
-- include: simple/common/give

local free = is_free()
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
local _, check = give(choice, fence, now)
return {free and 'free' or 'released', check_ms_of(check), not free and holder or nil}
