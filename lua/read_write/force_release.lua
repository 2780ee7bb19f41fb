-- For people: ends the write and all reads, tells the clients of the last of them to end (the
-- others learn of it when they renew), and passes the lock on.
--
-- KEYS   1 to 4 as acquire's; 5 to 7 as its last three
-- ARGV   1 what a grant channel begins with, before the client id  2 'more': only pass on
-- reply  { 'released', look_ms, grant ... } of those told, { 'free', look_ms } or
--        { 'told', look_ms }
-- include: common/time
-- include: common/look_of
-- include: reentrant/common/list_holds
-- include: reentrant/common/purge
-- include: read_write/common/settle

local now = now_us()
local state = read_state(now)
local fence = read_fence()
local holds = state.holds
local told = {}
if ARGV[2] ~= 'more' then
  for _, listed in ipairs(list_holds(holds, now, window)) do
    told[#told + 1] = listed[1]
  end
  local readers = redis.call('ZRANGE', readers_key, #told - window, '-1', 'WITHSCORES')
  for i = 1, #told < window and #readers or 0, 2 do
    if tonumber(readers[i + 1]) > now then
      told[#told + 1] = readers[i]
    end
  end
  holds.ended, holds.count, state.read_us = holds.ended or holds.count > 0, 0, 0
end
-- Telling many is enough for one call.
local choice = #told <= least and choose(nil, state, now) or
  {readers = {}, dead_writers = {}, dead_readers = {}, phase = holds.phase, unfinished = true}

purge(holds)
if ARGV[2] ~= 'more' then
  redis.call('UNLINK', readers_key)
end
for _, hold in ipairs(told) do
  local client = client_of(hold)
  if client then
    redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. hold .. ' ' .. KEYS[1])
  end
end
local _, look = settle(choice, state, fence, now)
return {ARGV[2] == 'more' and 'told' or told[1] and 'released' or 'free',
  look_of(look), unpack(told)}
