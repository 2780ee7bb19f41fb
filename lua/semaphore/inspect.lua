-- For people: shows the capacity, the holders of permits and the waiters. Writes nothing.
--
-- KEYS   1 to 4 as acquire's; 5 semaphore.permits
-- ARGV   1 the most waiters to list; if it is 0, holders are not listed either
-- reply  { 'semaphore', '0', { { grant, client, remaining_ms, permits } ... }, waiting,
--          { { grant, client, ticket, permits } ... }, holding,
--          capacity (0: not stored yet), used }
-- include: common/time
-- include: common/grant_id
-- include: common/list_waiters
-- include: common/live_grants
-- include: common/most_holders
-- include: semaphore/common/state

local now = now_us()
local state = read_state(now, most_holders)
local most = tonumber(ARGV[1])
local holders = {}
local holding, grants = live_grants(permits_key, now, most > 0 and most_holders or 0)
local names = {}
for i, grant in ipairs(grants) do
  names[i] = grant[1]
end
local amounts = state.extra and names[1] and redis.call('HMGET', KEYS[1], unpack(names)) or {}
for i, grant in ipairs(grants) do
  holders[i] = {grant[1], client_of(grant[1]) or '', grant[2], tonumber(amounts[i] or 1)}
end
local waiters, permits = list_waiters(most)
for i, waiter in ipairs(waiters) do
  waiter[4] = permits[i]
end
return {'semaphore', '0', holders, redis.call('ZCARD', KEYS[2]), waiters, holding,
  state.capacity or 0, state.used}
