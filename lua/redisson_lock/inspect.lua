-- For people: lists the holder. Writes nothing.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 the most waiters to list; the last as acquire's
-- reply  { kind, token, { { field, client, remaining_ms, 1 } }, 0, {}, holding }: waiters are known
--        only to their clients
-- include: redisson_lock/common/holders
local holders, holding = holders_of(redis.call('HGETALL', KEYS[1]))
return {'redisson_lock', redis.call('GET', KEYS[4]) or '0', holders, 0, {}, holding}
