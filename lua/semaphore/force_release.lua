-- For people: ends all holds, tells their clients, and lets in those who wait.
--
-- KEYS   1 to 4 as acquire's; 5 {N}:permits
-- ARGV   1 what a grant channel begins with, before the client id
-- reply  { 'released', hold ... } or { 'free' }
-- include: common/time
-- include: semaphore/common/settle

local now = now_us()
local state = read_state(now)
local reply = {'released'}
local holds = redis.call('ZRANGE', permits_key, 0, -1, 'WITHSCORES')
for i = 1, #holds, 2 do
  if tonumber(holds[i + 1]) > now then
    reply[#reply + 1] = holds[i]
  end
end
state.used = 0
local choice = state.capacity and choose(nil, state, now)

redis.call('DEL', permits_key)
drop_weights()
for i = 2, #reply do
  local client = client_of(reply[i])
  if client then
    redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. reply[i] .. ' ' .. KEYS[1])
  end
end
if choice then
  settle(choice, state, now)
end
return reply[2] and reply or {'free'}
