-- For people: who holds the lock, and who waits. Writes nothing.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 the most waiters to list
-- reply  { 'reentrant', fence, { { hold, owner, remaining_ms } ... }, waiting,
--          { { hold, owner, ticket } ... } }
-- include: common/time
-- include: common/list_waiters
-- include: reentrant/common/holds

local now = now_us()
local holds = read_holds(now, 'reentrant')
local holders = {}
for i, hold in ipairs(holds.names) do
  holders[i] = {hold, holds.owner, math.floor((holds.live[hold].expiry - now) / 1000)}
end
return {
  'reentrant',
  redis.call('GET', KEYS[4]) or '0',
  holders,
  redis.call('ZCARD', KEYS[2]),
  list_waiters(tonumber(ARGV[1])),
}
