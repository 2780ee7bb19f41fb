-- For people: lists the holder. Writes nothing.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 the most waiters to list; the last as acquire's
-- reply  { kind, token, { { field, client, remaining_ms, 1 } }, waiting, {}, holding }: it is not
--        known which clients wait
-- include: redisson_lock/common/read_fields
-- include: redisson_lock/common/holders_of
-- include: redisson_lock/common/waiting_at

local fields, refused = read_fields('a Redisson lock')
if refused then
  return refused
end
local holders, holding = holders_of(fields)
return {'redisson_lock', redis.call('GET', KEYS[4]) or '0', holders,
  waiting_at('redisson_lock__channel'), {}, holding}
