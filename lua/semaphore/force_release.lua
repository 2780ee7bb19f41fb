-- For people: ends all holds, tells the clients of those that would have lasted longest (the others
-- learn of it when they renew), and lets in those who wait.
--
-- KEYS   1 to 4 as acquire's; 5 semaphore.permits
-- ARGV   1 what a grant channel begins with, before the client id  2 'more': only let in
-- reply  { 'released', look_ms, hold ... } of those told, { 'free', look_ms } or
--        { 'told', look_ms }
-- include: common/time
-- include: common/hold_id
-- include: semaphore/common/settle

local now = now_us()
local state = read_state(now)
local more = ARGV[2] == 'more'
local told = {}
if not more then
  local holds = redis.call('ZRANGE', permits_key, -window, -1, 'WITHSCORES')
  for i = 1, #holds, 2 do
    if tonumber(holds[i + 1]) > now then
      told[#told + 1] = holds[i]
    end
  end
  state.void = state.extra or state.void
  state.used, state.lapsed, state.extra, state.more = 0, {}, nil, nil
end
-- Telling many is enough for one call.
local choice = #told > 16 and {admitted = {}, passed_over = {}, unfinished = true}
  or state.capacity and choose(nil, state, now)

if not more then
  redis.call('UNLINK', permits_key)
end
for _, hold in ipairs(told) do
  local client = client_of(hold)
  if client then
    redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. hold .. ' ' .. KEYS[1])
  end
end
local look = ''
if choice then
  look = select(2, settle(choice, state, now))
end
return {more and 'told' or told[1] and 'released' or 'free',
  tonumber(string.match(look, '%d+')) or 0, unpack(told)}
