-- For people: who holds the lock, and who waits. Writes nothing.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 the most waiters to list
-- reply  { 'simple', fence, { { hold, owner, remaining_ms } }, waiting,
--          { { hold, owner, ticket } ... } }
--        The owner of a hold is its client, '' where it is foreign.
-- include: common/hold_id
-- include: common/list_waiters

local holders = {}
local holder = redis.call('GET', KEYS[1])
if holder then
  holders[1] = {holder, client_of(holder) or '', redis.call('PTTL', KEYS[1])}
end
return {
  'simple',
  redis.call('GET', KEYS[4]) or '0',
  holders,
  redis.call('ZCARD', KEYS[2]),
  list_waiters(tonumber(ARGV[1])),
}
