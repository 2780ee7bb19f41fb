-- Changes how many permits there are, for everybody: who waits for more than that is told to ask
-- again, and hears it then; who waits for what is free now gets it.
--
-- KEYS   1 to 4 as acquire's; 5 {N}:permits
-- ARGV   1 the capacity
-- reply  'set'
-- include: common/time
-- include: semaphore/common/store
-- include: semaphore/common/settle

local now = now_us()
local state = read_state(now)
local before = state.capacity
state.capacity = tonumber(ARGV[1])

-- Only those who asked while there were more can have asked for too many.
local too_many = {}
if not before or state.capacity < before then
  for _, hold in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    local waiter = read_waiter(hold)
    if waiter and waiter.block > state.capacity then
      too_many[#too_many + 1] = waiter
    end
  end
end
local choice = choose(nil, state, now)
for _, waiter in ipairs(too_many) do
  choice.passed_over[#choice.passed_over + 1] = waiter.hold
end

store(state, ARGV[1], 'set_capacity', now)
settle(choice, state, now)
for _, waiter in ipairs(too_many) do
  redis.call('PUBLISH', waiter.channel, 'forced ' .. waiter.hold .. ' ' .. KEYS[1])
end
return 'set'
