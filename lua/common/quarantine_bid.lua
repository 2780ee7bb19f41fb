-- Before acquire: as long as there is a quarantine, nothing is granted.
-- include: common/quarantine
local quarantined_ms, refused = quarantine(false)
if refused then
  return refused
elseif quarantined_ms > 0 then
-- include: common/request
-- include: common/sit_out
  return sit_out(read_request(0), quarantined_ms)
end
