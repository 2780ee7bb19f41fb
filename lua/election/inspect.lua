-- For people: lists the leader and the waiting candidates. Writes nothing.
--
-- KEYS   1 to 4 as acquire's; then the leader's record, and the observers
-- ARGV   1 the most waiters to list
-- reply  { 'election', fence, { { grant, owner, remaining_ms, 1, since } }, waiting,
--          { { grant, owner, ticket } ... }, holding }; an owner is 'user:' and the value, if any
-- include: election/common/leader
-- include: simple/common/is_free
-- include: common/inspection

local reply = inspection('election', not is_free() and holder or nil)
if leader then
  local its = reply[3][1]
  its[2] = leader.value ~= '' and 'user:' .. leader.value or its[2]
  its[5] = leader.since
end
return reply
