-- For people: lists the holder and the first waiters. Writes nothing.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 the most waiters to list; the last as acquire's
-- reply  { kind, '0', { { field, client, remaining_ms, 1 } }, waiting,
--          { { waiter, client, '0' } ... }, holding }
-- include: redisson_lock/common/read_fields
-- include: redisson_lock/common/holders_of

local fields, refused = read_fields('a Redisson lock', 'a Redisson fair lock')
if refused then
  return refused
end
local holders, holding = holders_of(fields)
local waiters = redis.call('LRANGE', KEYS[2], 0, math.min(ARGV[1], most_holders) - 1)
if ARGV[1] == '0' then
  waiters = {}
end
for i, waiter in ipairs(waiters) do
  waiters[i] = {waiter, client_of(waiter) or '', '0'}
end
return {'redisson_fair_lock', '0', holders, redis.call('LLEN', KEYS[2]), waiters, holding}
