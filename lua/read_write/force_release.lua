-- For people: ends the write and all reads, tells their clients, and passes the lock on.
--
-- KEYS   1 to 4 as acquire's; 5, 6 as its 6, 7
-- ARGV   1 what a grant channel begins with, before the client id
-- reply  { 'released', hold ... } or { 'free' }
-- include: common/time
-- include: reentrant/common/end_hold
-- include: read_write/common/settle

local now = now_us()
local state = read_state(now)
local fence = read_fence()
local reply = {'released'}
for _, hold in ipairs(state.holds.names) do
  reply[#reply + 1] = hold
  end_hold(state.holds, hold)
end
local readers = redis.call('ZRANGE', readers_key, 0, -1, 'WITHSCORES')
for i = 1, #readers, 2 do
  if tonumber(readers[i + 1]) > now then
    reply[#reply + 1] = readers[i]
  end
end
state.read_us = 0
local choice = choose(nil, state, now)

redis.call('DEL', KEYS[1], readers_key)
for i = 2, #reply do
  local client = client_of(reply[i])
  if client then
    redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. reply[i] .. ' ' .. KEYS[1])
  end
end
settle(choice, state, fence, now)
return reply[2] and reply or {'free'}
