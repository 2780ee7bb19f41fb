-- Does what common/quarantine_acquire does, for acquire and acquire_read.
-- include: common/quarantine
-- include: read_write/common/raise_fence
local quarantined_ms, refused, until_ms = quarantine()
if refused then
  return refused
elseif quarantined_ms > 0 then
-- include: read_write/common/request
-- include: common/queue_in_quarantine
  return queue_in_quarantine(read_rw_request(0), quarantined_ms)
end
raise_fence(until_ms)
