-- others(holds, now): what a reader is told: 1 where a writer waits or writes, so that no further
-- reader joins without asking.
local function others(holds, now)
  return (holds.count > 0 or latest(markers_key) > now) and 1 or 0
end
