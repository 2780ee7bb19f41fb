-- For people: the capacity, who holds permits, and who waits. Writes nothing.
--
-- KEYS   1 to 4 as acquire's; 5 {N}:permits
-- ARGV   1 the most waiters to list; where it is 0, holders are not listed either
-- reply  { 'semaphore', '0', { { hold, client, remaining_ms, permits } ... }, waiting,
--          { { hold, client, ticket, permits } ... }, capacity (0: not stored yet), used }
-- include: common/time
-- include: common/hold_id
-- include: common/list_waiters
-- include: semaphore/common/state

local now = now_us()
local state = read_state(now)
local most = tonumber(ARGV[1])
local holders = {}
local holds = most > 0 and redis.call('ZRANGE', permits_key, 0, -1, 'WITHSCORES') or {}
for i = 1, #holds, 2 do
  local remaining_us = holds[i + 1] - now
  if remaining_us > 0 then
    holders[#holders + 1] = {holds[i], client_of(holds[i]) or '',
      math.floor(remaining_us / 1000), weight_of(holds[i])}
  end
end
local waiters = list_waiters(most)
for _, each in ipairs(waiters) do
  local waiter = read_waiter(each[1])
  each[4] = waiter and waiter.block or 1
end
return {'semaphore', '0', holders, redis.call('ZCARD', KEYS[2]), waiters, state.capacity or 0,
  state.used}
