-- For people: lists the holder and the waiters. Writes nothing.
--
-- KEYS   1 to 4 as acquire's
-- ARGV   1 the most waiters to list
-- reply  { 'simple', fence, { { grant, owner, remaining_ms, 1, since } }, waiting,
--          { { grant, owner, ticket } ... }, holding }
-- include: simple/common/holder
-- include: common/inspection

local held = redis.call('EXISTS', KEYS[1]) == 1
return inspection('simple', held and holder or nil)
