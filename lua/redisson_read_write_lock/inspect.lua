-- For people: lists the writer and the readers. Writes nothing.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 the most waiters to list; the last as acquire's
-- reply  as redisson_lock/inspect's, with several holders
-- include: redisson_lock/common/read_fields
-- include: redisson_lock/common/holders_of
-- include: redisson_lock/common/waiting_at

local fields, refused = read_fields('a Redisson read-write lock')
if refused then
  return refused
end
local holders, holding = holders_of(fields)
return {'redisson_read_write_lock', '0', holders,
  waiting_at('redisson_rwlock'), {}, holding}
