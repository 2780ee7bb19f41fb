-- Runs before acquire: during a quarantine nothing is granted.
-- include: common/quarantine
local quarantined_ms, refused = quarantine()
if refused then
  return refused
elseif quarantined_ms > 0 then
-- include: common/request
-- include: common/queue_in_quarantine
  return queue_in_quarantine(read_request(0), quarantined_ms)
end
