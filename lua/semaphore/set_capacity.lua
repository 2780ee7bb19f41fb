-- Changes the capacity for all clients. Waiters that want more than the capacity leave the queue,
-- are told to ask again, and are then refused. Other waiters for which permits are free now get
-- them. A call reads a window of waiters, and its caller repeats it at once.
--
-- KEYS   1 to 4 as acquire's; 5 semaphore.permits
-- ARGV   1 the capacity  2 'more <ticket>', as the last call replied: continue after that ticket
-- reply  { 'set', check_ms } or { 'more <ticket>', 1 }
-- include: common/time
-- include: common/check_ms_of
-- include: semaphore/common/store
-- include: semaphore/common/settle

local now = now_us()
local state = read_state(now)
local behind = ARGV[2] and string.match(ARGV[2], '^more (%S+)$')
local before = state.capacity
if not behind then
  state.capacity = tonumber(ARGV[1])
elseif not before then
  return {'set', 0}
end

-- Only waiters that asked while the capacity was larger can want too many.
local refused, last = {}, '+inf'
if behind or not before or state.capacity < before then
  local entries = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. (behind or '-inf'), '+inf',
    'WITHSCORES', 'LIMIT', 0, window)
  for i = 1, #entries, 2 do
    local waiter = read_waiter(entries[i])
    if waiter and waiter.amount > state.capacity then
      refused[#refused + 1] = waiter
    end
  end
  last = #entries == 2 * window and entries[#entries] or last
end

-- A call that tells many clients grants permits to no waiter. Its caller repeats it.
local enough = last ~= '+inf' or #refused > 16
local choice = enough and {admitted = {}, passed_over = {}, unfinished = true}
  or choose(nil, state, now)
for _, waiter in ipairs(refused) do
  choice.passed_over[#choice.passed_over + 1] = waiter.grant
end
if not behind then
  store(state, ARGV[1], 'set_capacity', now)
end
local _, check = settle(choice, state, now)
for _, waiter in ipairs(refused) do
  redis.call('PUBLISH', waiter.channel, 'forced ' .. waiter.grant .. ' ' .. KEYS[1])
end
return {choice.unfinished and 'more ' .. last or 'set', check_ms_of(check)}
