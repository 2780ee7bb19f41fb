-- For people: ends all grants, tells their clients, and admits waiters. A call tells a window of
-- holders, first those whose permits would have lasted longest. Its caller repeats it at once.
--
-- KEYS   1 to 4 as acquire's; 5 semaphore.forced: ended grants whose clients must still be told;
--        6 semaphore.permits
-- ARGV   as simple/force_release's
-- reply  { 'released', check_ms, grant ... } of those told, { 'free', check_ms } or
--        { 'told', check_ms }
-- include: common/time
-- include: common/grant_id
-- include: common/check_ms_of
-- include: semaphore/common/settle

local now = now_us()
local state = read_state(now)
local untold_key, more = KEYS[5], ARGV[2] == 'more'
local reply = {more and 'told' or 'free', 0}
local last = redis.call('ZRANGE', permits_key, '-1', '-1', 'WITHSCORES')
if not more then
  state.void = state.extra or state.void
  state.used, state.expired, state.extra, state.more = 0, {}, nil, nil
end
-- A call that tells many clients grants permits to no waiter. Its caller repeats it.
local choice = redis.call('ZCARD', more and untold_key or permits_key) > 32 and
  {admitted = {}, passed_over = {}, unfinished = true} or
  state.capacity and choose(nil, state, now)

if not more then
  redis.call('UNLINK', untold_key)
  if last[1] and tonumber(last[2]) > now then
    redis.call('RENAME', permits_key, untold_key)
    reply[1] = 'released'
  else
    redis.call('UNLINK', permits_key)
  end
end
local told = redis.call('ZRANGE', untold_key, -window, '-1', 'WITHSCORES')
redis.call('ZREMRANGEBYRANK', untold_key, -window, '-1')
if told[2] and tonumber(told[2]) <= now then
  redis.call('UNLINK', untold_key)  -- the others have expired
end
for i = 1, #told, 2 do
  local client = tonumber(told[i + 1]) > now and client_of(told[i])
  if client then
    redis.call('PUBLISH', ARGV[1] .. client, 'forced ' .. told[i] .. ' ' .. KEYS[1])
    reply[#reply + 1] = not more and told[i] or nil
  end
end
if choice then
  local _, check = settle(choice, state, now)
  reply[2] = check_ms_of(check)
end
return reply
