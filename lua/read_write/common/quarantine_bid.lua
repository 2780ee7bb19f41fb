-- Before acquire and acquire_read: as common/quarantine_bid.
-- include: common/quarantine
local quarantined_ms, refused = quarantine(false)
if refused then
  return refused
elseif quarantined_ms > 0 then
-- include: read_write/common/read_bid
-- include: common/sit_out
  return sit_out(read_bid(0), quarantined_ms)
end
