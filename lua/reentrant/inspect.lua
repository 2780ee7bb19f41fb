-- For people: lists holders and waiters. Writes nothing.
--
-- KEYS   1 to 4 as acquire's, and its last
-- ARGV   1 the most waiters to list
-- reply  { 'reentrant', fence, { { grant, owner, remaining_ms, 1, since } ... }, waiting,
--          { { grant, owner, ticket } ... }, holding }
-- include: common/time
-- include: common/list_waiters
-- include: common/read_fence
-- include: reentrant/common/list_grants

local now = now_us()
local fence = read_fence()
local listed, live = list_grants(read_grants(now, 'reentrant/2', true), now)
return {
  'reentrant',
  string.format('%.0f', fence),
  listed,
  redis.call('ZCARD', KEYS[2]),
  list_waiters(tonumber(ARGV[1])),
  live,
}
