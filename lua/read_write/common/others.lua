-- include: read_write/common/keys

-- others(holds): what a reader is told: 1 if a writer waits or writes, so that no further reader
-- joins without asking.
local function others(holds)
  return (holds.count > 0 or redis.call('EXISTS', writers_key) == 1) and 1 or 0
end
