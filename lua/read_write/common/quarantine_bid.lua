-- Before acquire and acquire_read: as common/quarantine_bid.
-- include: common/quarantine
-- include: read_write/common/raise_fence
local quarantined_ms, refused, until_ms = quarantine(false)
if refused then
  return refused
elseif quarantined_ms > 0 then
-- include: read_write/common/read_bid
-- include: common/sit_out
  return sit_out(read_bid(0), quarantined_ms)
end
raise_fence(until_ms)
