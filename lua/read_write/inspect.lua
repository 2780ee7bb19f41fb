-- For people: who writes, who reads, and who waits. Writes nothing.
--
-- KEYS   1 to 4 as acquire's; 5, 6 as its 6, 7
-- ARGV   1 the most waiters to list
-- reply  { 'read_write', fence, { { hold, owner, remaining_ms, 1, since } of each that writes, then
--          { hold, 'read', remaining_ms } of each that reads ... }, waiting,
--          { { hold, owner, ticket } ... }, holding }
-- include: common/time
-- include: common/list_waiters
-- include: common/live_holds
-- include: read_write/common/state
-- include: reentrant/common/list_holds

local now = now_us()
local holds = read_state(now).holds
local holders = list_holds(holds, now)
local reading, readers = live_holds(readers_key, now, most_holders - #holders)
for _, reader in ipairs(readers) do
  holders[#holders + 1] = {reader[1], 'read', reader[2]}
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
  holds.count + reading,
}
