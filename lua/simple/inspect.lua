-- For people: lists the holder and the waiters. Writes nothing.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 the most waiters to list
-- reply  { 'simple', fence, { { grant, owner, remaining_ms, 1, since } }, waiting,
--          { { grant, owner, ticket } ... }, holding }
-- include: simple/common/is_free
-- include: common/inspection

return inspection('simple', not is_free() and holder or nil)
