-- For people: who writes, who reads, and who waits. Writes nothing.
--
-- KEYS   1 to 4 as acquire's; 5, 6 as its 6, 7
-- ARGV   1 the most waiters to list
-- reply  { 'read_write', fence, { { hold, owner, or 'read' for a reader, remaining_ms } ... },
--          waiting, { { hold, owner, ticket } ... } }
-- include: common/time
-- include: common/list_waiters
-- include: read_write/common/state

local now = now_us()
local state = read_state(now)
local holds = state.holds
local holders = {}
for i, hold in ipairs(holds.names) do
  holders[i] = {hold, holds.owner, math.floor((holds.live[hold].expiry - now) / 1000)}
end
local readers = redis.call('ZRANGE', readers_key, 0, -1, 'WITHSCORES')
for i = 1, #readers, 2 do
  local remaining_us = readers[i + 1] - now
  if remaining_us > 0 then
    holders[#holders + 1] = {readers[i], 'read', math.floor(remaining_us / 1000)}
  end
end
local waiters = list_waiters(tonumber(ARGV[1]))
for _, waiter in ipairs(waiters) do
  waiter[2] = string.gsub(waiter[2], '^fair:', '')
end
return {
  'read_write',
  redis.call('GET', KEYS[4]) or '0',
  holders,
  redis.call('ZCARD', KEYS[2]),
  waiters,
}
