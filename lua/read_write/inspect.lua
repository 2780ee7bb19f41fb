-- For people: lists writers, readers and waiters. Writes nothing.
--
-- KEYS   1 to 4 as acquire's; 5 to 7 as its last three
-- ARGV   1 the most waiters to list
-- reply  { 'read_write', fence, { { grant, owner, remaining_ms, 1, since } of each that writes,
--          then { grant, 'read', remaining_ms } of each that reads ... }, waiting,
--          { { grant, owner, ticket } ... }, holding }
--        Waiters in the order in which they will be served.
-- include: common/time
-- include: common/list_waiters
-- include: common/read_fence
-- include: common/live_grants
-- include: read_write/common/state
-- include: reentrant/common/list_grants

local now = now_us()
local fence = read_fence()
local state = read_state(now, nil, true)
local grants = state.grants
local holders, writing = list_grants(grants, now)
local reading, readers = live_grants(read_grants_key, now, most_holders - #holders)
for _, reader in ipairs(readers) do
  holders[#holders + 1] = {reader[1], 'read', reader[2]}
end

-- Writers go first, except before readers that a phase-fair write lets in when it ends.
local most = tonumber(ARGV[1])
local waiters = {}
local function list(queue, from, to)
  for _, waiter in ipairs(list_waiters(most - #waiters, queue, from, to)) do
    waiter[2] = string.gsub(waiter[2], '^fair:', '')
    waiters[#waiters + 1] = waiter
  end
end
local phase = grants.phase or grants.policy == 'phase_fair' and '+inf' or '0'
list(KEYS[2], '-inf', phase)
list(waiting_writers_key, '-inf', '+inf')
list(KEYS[2], '(' .. phase, '+inf')
return {
  'read_write',
  string.format('%.0f', fence),
  holders,
  state.readers_waiting + state.writers_waiting,
  waiters,
  writing + reading,
}
